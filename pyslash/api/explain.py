"""Says whether pyslash covers a query, and how it runs it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyslash import connect
from pyslash.driver.start.explanation import explanation_of
from pyslash.plan.explain import Explanation
from pyslash.spark.session import check_classic


def explain(df: DataFrame, output_mode: str = "append") -> str:
    """Print and return whether pyslash covers a streaming DataFrame in an output mode: how it runs, or why not.

    Of a Spark Connect session its server is asked (`pyslash.connect.explain`).

    Raises:
        InvalidInputError: there is no such output mode.
        TypeError: it is no DataFrame.
        UnsupportedQueryError: the server has no pyslash.
    """
    if connect.is_clients(df):
        text = connect.explain(df, output_mode)
    else:
        if not hasattr(df, "sparkSession"):
            raise TypeError(f"pyslash.explain takes a streaming DataFrame, not {df!r}")
        check_classic(df.sparkSession)
        text = explanation_of(df, output_mode)
    print(text)
    return Explanation(text)
