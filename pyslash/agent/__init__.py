"""The agent: a process next to each executor. It owns the arena, answers the driver, compacts, and dies with the JVM.

`process` finds or starts it, `server` (over `listener`) is its control plane, `store` its state, `compaction` keeps
that state small, `replication` copies it to standbys, `checkpoint` is its part in a query's checkpoint, `verbs` its
part in RDMA.

This module imports nothing: an executor waits for its agent, so starting one needs only the standard library.
"""
