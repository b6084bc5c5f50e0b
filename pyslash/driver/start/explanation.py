"""What `explain` says of a streaming DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyslash.driver.coverage_check import operators_of
from pyslash.ingest.data_paths import data_paths
from pyslash.plan.explain import explain
from pyslash.plan.output_mode import OutputMode
from pyslash.spark.session import conf_of


def explanation_of(df: DataFrame, output_mode: str) -> str:
    """Whether pyslash covers it in an output mode: how it runs, or why not.

    Raises:
        InvalidInputError: there is no such output mode.
    """
    mode = OutputMode.parse(output_mode)
    conf = conf_of(df.sparkSession)
    return explain(lambda: operators_of(df, mode, conf)[0], lambda operator: data_paths(df, operator, conf))
