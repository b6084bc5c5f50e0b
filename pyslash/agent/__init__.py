"""The agent: one side-car process an executor. It owns the arena, answers the driver, compacts, and dies with the JVM.

`process` finds or starts it, `server` is its control plane (over `listener`), `store` what it holds, `compaction` how
it keeps that small, `replication` how it has others keep a copy, `checkpoint` its part in a query's checkpoint, `verbs`
its part in RDMA.

Nothing is imported here: an executor waits for the agent, so the modules it needs come from the standard library alone.
"""
