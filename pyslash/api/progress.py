"""The figures of a query's last epochs."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming import StreamingQuery

from pyslash import connect
from pyslash.driver.start import hook, plugin


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """Figures of the last epochs of a query, oldest first; an empty list if the query runs on plain Spark.

    The figures of a query that has ended are kept until a hundred other queries have ended after it.

    Each is a dict with the fields of `pyslash.epoch_progress.EpochProgress`: rows, late rows, distinct groups,
    milliseconds of update, commit, merge and sink, pinned bytes, bytes read by transport. Of a Spark Connect session
    its server is asked (`pyslash.connect.progress`).

    Raises:
        TypeError: it is no query.
        UnsupportedQueryError: the server has no pyslash.
    """
    if connect.is_clients(query):
        return connect.progress(query)
    if not hasattr(query, "runId"):
        raise TypeError(f"pyslash.progress takes a StreamingQuery, as start() returns it, not {query!r}")
    found = hook.progress_of(query)
    return found.epochs() if found is not None else plugin.progress_of(query)
