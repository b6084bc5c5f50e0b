"""The agent: one side-car process an executor. It owns the arena, answers the driver, compacts, and dies with the JVM.

The life of an agent by file: `launch` finds or starts it (`runtime` is the folder that both sides meet in, `process`
says who is who), `serve` is its main function, `server` its control plane (`token` guards it, `form` bounds it),
`state` what it holds (`published`, `share` and `checkpoint` are parts of that), `compaction` and `folding` how it keeps
that small, `client` how others talk to it.

Nothing is imported here: an executor waits for `launch`, so the modules it needs come from the standard library alone.
"""
