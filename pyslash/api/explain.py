"""Says whether pyslash covers a query, and how it runs it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyslash.driver.coverage_check import operators_of
from pyslash.ingest.data_paths import data_paths
from pyslash.plan.explain import Explanation
from pyslash.plan.explain import explain as text_of
from pyslash.plan.output_mode import OutputMode
from pyslash.spark import session


def explain(df: DataFrame, output_mode: str = "append") -> str:
    """Print and return whether pyslash covers a streaming DataFrame in an output mode: how it runs, or why not.

    Raises:
        InvalidInputError: there is no such output mode.
        TypeError: it is no DataFrame.
        UnsupportedQueryError: the session is a Spark Connect session.
    """
    if not hasattr(df, "sparkSession"):
        raise TypeError(f"pyslash.explain takes a streaming DataFrame, not {df!r}")
    session.check_classic(df.sparkSession)
    mode = OutputMode.parse(output_mode)
    conf = session.conf_of(df.sparkSession)
    text = text_of(lambda: operators_of(df, mode, conf)[0], lambda operator: data_paths(df, operator, conf))
    print(text)
    return Explanation(text)
