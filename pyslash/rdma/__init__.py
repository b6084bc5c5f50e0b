"""RDMA verbs, as far as partial state needs them: one-sided READ and WRITE over reliable connections.

`port` finds a port and its GID in sysfs, `library` imports pyverbs, `device` opens a port, `queue_pair` connects,
`transfer` moves bytes, `landing` is the memory that they land in. Nothing here knows of agents or queries.

Nothing is imported here: on a machine without RDMA, `port` alone says so, from the standard library.
"""
