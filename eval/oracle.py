"""What is right: Spark's batch query over the same rows, kept beside them, and how an engine's rows compare with it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eval.workloads.base import WATERMARK_MS, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLOAT_TOLERANCE = 1e-9  # relative: the order of a floating-point sum is nobody's promise
UTC = pa.timestamp("us", tz="UTC")


def flat(result: DataFrame) -> DataFrame:
    """Spark's window struct as two columns, `window_start` and `window_end`."""
    if "window" not in result.columns:
        return result
    others = [column for column in result.columns if column != "window"]
    return result.selectExpr("window.start AS window_start", "window.end AS window_end", *[f"`{c}`" for c in others])


def write(spark: SparkSession, workload: Workload, folder: Path) -> None:
    """Write `folder/oracle`, unless it is there: the rows of every window that the last watermark closed."""
    from pyspark.sql import functions as F

    where = folder / "oracle"
    if where.exists():
        return
    rows = spark.read.parquet(str(folder / "rows"))
    result = flat(workload.query(spark, rows, folder))
    if workload.statement.windowed:
        seen = rows.where(workload.statement.where or "true")
        last = seen.agg(F.unix_micros(F.max(workload.event_time))).collect()[0][0]
        # Spark keeps watermarks in whole milliseconds.
        result = result.where(F.col("window_end") <= F.timestamp_millis(F.lit(last // 1000 - WATERMARK_MS)))
    unfinished = folder / "oracle.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    result.write.parquet(str(unfinished))
    unfinished.rename(where)


def expected(folder: Path) -> pa.Table:
    """The oracle's rows."""
    return read(folder / "oracle")


def read(folder: Path) -> pa.Table:
    """The rows of a folder of Parquet files, with every time in microseconds of UTC."""
    table = pq.read_table(folder)
    for number, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(number, column.name, pc.cast(table.column(number), UTC, safe=False))
    return table


def closed(result: pa.Table, rows: pa.Table) -> pa.Table:
    """Of an engine that emits all windows in the end, those that the oracle's last window includes."""
    if "window_end" not in rows.column_names or not rows.num_rows:
        return result
    ends = result.column("window_end").cast(UTC, safe=False)
    return result.filter(pc.less_equal(ends, pc.max(rows["window_end"])))


def same_rows(result: pa.Table, rows: pa.Table) -> bool:
    """Whether `result` holds the oracle's `rows`, in any order, its columns in the same order and of types that fit.

    Raises:
        pa.ArrowInvalid: a value has no equal in the oracle's type.
    """
    if result.num_rows != rows.num_rows or result.num_columns != rows.num_columns:
        return False
    result = result.rename_columns(rows.column_names).cast(rows.schema)
    exact = [field.name for field in rows.schema if not pa.types.is_floating(field.type)]
    # Floating numbers break ties only, so that what is compared with a tolerance rarely decides an order.
    order = [(name, "ascending") for name in [*exact, *(set(rows.column_names) - set(exact))]]
    result, rows = result.sort_by(order), rows.sort_by(order)
    return all(_equal(result[name], rows[name]) for name in rows.column_names)


def _equal(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(theirs.type):
        return bool(ours.equals(theirs))
    if not ours.is_null().equals(theirs.is_null()):
        return False
    limit = pc.multiply(pc.abs(theirs), FLOAT_TOLERANCE)
    near = pc.or_(pc.less_equal(pc.abs(pc.subtract(ours, theirs)), limit), pc.and_(pc.is_nan(ours), pc.is_nan(theirs)))
    return bool(pc.all(near, min_count=0).as_py())
