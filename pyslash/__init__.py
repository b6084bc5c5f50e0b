"""pyslash: PySpark's stateful streaming queries without a shuffle and without a state store.

    import pyslash
    pyslash.enable(spark)            # or spark.pyspark.driver.python=slash-python, and no line of code

Queries that pyslash covers then keep partial state where their rows are, and merge it when they emit it. All others
run on plain Spark, and `explain` says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyslash.processor import check_processor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

check_processor()

__version__ = "0.1.0"

__all__ = ["__version__", "disable", "enable", "explain", "progress"]


def enable(spark: SparkSession) -> None:
    """Run the streaming queries that pyslash covers on pyslash, in every session of this application.

    Executors on this machine run the driver's Python, unless `PYSPARK_PYTHON` or `spark.pyspark.python` is set. Spark's
    log says of each query whether pyslash runs it.

    Args:
        spark: a classic (not Spark Connect) session.

    Raises:
        ConfigError: a `spark.slash.*` key does not exist, or its value is wrong.
        TypeError: it is no session.
        UnsupportedQueryError: the session is a Spark Connect session.
    """
    from pyslash.driver import hook
    from pyslash.spark import session, spark_log

    session.check_classic(spark)
    session.conf_of(spark)
    session.choose_python(spark)
    spark_log.install()
    hook.install()


def disable() -> None:
    """Leave queries that start from now on to plain Spark. Running queries are not affected."""
    from pyslash.driver import hook

    hook.uninstall()


def explain(df: DataFrame, output_mode: str = "append") -> str:
    """Print and return whether pyslash covers a streaming DataFrame in an output mode: how it runs, or why not.

    Raises:
        InvalidInputError: there is no such output mode.
        TypeError: it is no DataFrame.
        UnsupportedQueryError: the session is a Spark Connect session.
    """
    from pyslash.driver.cover import operators_of
    from pyslash.ingest.data_paths import data_paths
    from pyslash.plan.explain import Explanation
    from pyslash.plan.explain import explain as text_of
    from pyslash.plan.output_mode import OutputMode
    from pyslash.spark import session

    if not hasattr(df, "sparkSession"):
        raise TypeError(f"pyslash.explain takes a streaming DataFrame, not {df!r}")
    session.check_classic(df.sparkSession)
    mode = OutputMode.parse(output_mode)
    conf = session.conf_of(df.sparkSession)
    text = text_of(lambda: operators_of(df, mode, conf)[0], lambda operator: data_paths(df, operator, conf))
    print(text)
    return Explanation(text)


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """Figures of the last epochs of a query, oldest first; an empty list if the query runs on plain Spark.

    The figures of a query that has ended are kept until a hundred other queries have ended after it.

    Each is a dict with the fields of `pyslash.epoch_progress.EpochProgress`: rows, late rows, distinct groups,
    milliseconds of update, commit, merge and sink, pinned bytes, bytes read by transport.

    Raises:
        TypeError: it is no query.
    """
    from pyslash.driver import hook

    if not hasattr(query, "runId"):
        raise TypeError(f"pyslash.progress takes a StreamingQuery, as start() returns it, not {query!r}")
    found = hook.progress_of(query)
    return found.epochs() if found is not None else []
