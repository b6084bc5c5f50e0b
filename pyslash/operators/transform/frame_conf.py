"""Spark's settings of the frames of pandas that a user's function takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession

from pyslash.spark.spark_settings import is_true

UNLIMITED = (1 << 31) - 1


@dataclass(frozen=True)
class FrameConf:
    """As Spark tells its Python workers: at most so many rows and bytes are converted together (`UNLIMITED`: all), in
    this time zone; with integers of pandas' own types that have nulls; and what comes back is taken by the names of
    columns, checked for overflow, and with integers as decimals. `large_types`: strings of Arrow have 64-bit offsets.
    """

    most_rows: int
    most_bytes: int
    time_zone: str
    integers_with_nulls: bool
    by_name: bool
    safely: bool
    integers_as_decimals: bool
    large_types: bool

    @classmethod
    def of(cls, session: SparkSession) -> Self:
        """Those of a session of Spark 4.3."""
        sizes: Any = session._jsparkSession.sessionState().conf()
        most_rows = sizes.arrowMaxRecordsPerBatch()

        def is_on(name: str) -> bool:
            return is_true(str(session.conf.get(name)))

        return cls(
            most_rows=most_rows if most_rows > 0 else UNLIMITED,
            most_bytes=sizes.arrowMaxBytesPerBatch(),
            time_zone=session.conf.get("spark.sql.session.timeZone"),
            integers_with_nulls=is_on("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"),
            by_name=is_on("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"),
            safely=is_on("spark.sql.execution.pandas.convertToArrowArraySafely"),
            integers_as_decimals=is_on("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"),
            large_types=is_on("spark.sql.execution.arrow.useLargeVarTypes"),
        )
