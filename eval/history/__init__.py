"""What histories cost a query that runs: a backfill beside it, and SQL over its live state (docs/history.md).

A query with a steady trickle of small files runs in one application. First another application hands it a backfill, of
which the rate is held against Spark's batch over the same files; then tasks read the query's state again and again.
Either time the query's micro-batches before are compared with those meanwhile, and what comes out with what has to.
"""
