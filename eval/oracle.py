"""What is right: the rows that Spark itself gives, kept beside a workload's, and how an engine's compare with them.

Without late rows a stream in append mode emits what a batch query over the same rows gives, and that is the oracle:
no stream takes part in it. Which late rows count depends on the micro-batches that they come in, and so does what the
other modes emit: there, plain Spark's own stream over the same files is the oracle, micro-batch by micro-batch. So it
is for sessions: of a batch query's, Spark's optimizer moves a filter on the end below the aggregation, where a row's
own session ends elsewhere.
"""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eval import digest
from eval.workloads.base import WATERMARK_MS, Workload
from pyslash.demo import compare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = pa.timestamp("us", tz="UTC")
ROWS = "rows"


def flat(result: DataFrame) -> DataFrame:
    """Spark's window struct as two columns, `window_start` and `window_end`."""
    if "window" not in result.columns:
        return result
    others = [column for column in result.columns if column != "window"]
    return result.selectExpr("window.start AS window_start", "window.end AS window_end", *[f"`{c}`" for c in others])


def write(spark: SparkSession, workload: Workload, folder: Path) -> None:
    """Write `folder/oracle`, unless it is there: the rows, and their digests where they can have any.

    `spark` has to be without pyslash.
    """
    where = folder / "oracle"
    if where.exists():
        return
    unfinished = folder / "oracle.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    parts: dict[int | None, Path] = {None: unfinished / ROWS}
    if workload.is_judged_by_stream:
        parts = _write_stream(spark, workload, folder, unfinished)
    else:
        _batch(spark, workload, folder).write.parquet(str(parts[None]))
    written = {batch: spark.read.parquet(str(part)) for batch, part in parts.items()}
    if all(digest.exact(rows.schema) for rows in written.values()):
        digest.write(unfinished, [(batch, digest.digest(rows)) for batch, rows in written.items()])
    unfinished.rename(where)


def _batch(spark: SparkSession, workload: Workload, folder: Path) -> DataFrame:
    """Of every window that the last watermark closes."""
    from pyspark.sql import functions as F

    rows = spark.read.parquet(str(folder / "rows"))
    result = flat(workload.query(spark, rows, folder))
    if not workload.has_state:
        return result
    seen = rows.where(workload.statement.where or "true")
    last = seen.agg(F.unix_micros(F.max(workload.event_time))).collect()[0][0]
    # Spark keeps watermarks in whole milliseconds.
    return result.where(F.col("window_end") <= F.timestamp_millis(F.lit(last // 1000 - WATERMARK_MS)))


def _write_stream(spark: SparkSession, workload: Workload, folder: Path, where: Path) -> dict[int | None, Path]:
    """Run the stream; a folder for each micro-batch."""
    parts: dict[int | None, Path] = {}

    def add(result: DataFrame, batch: int) -> None:
        parts[batch] = where / ROWS / f"batch-{batch}"
        flat(result).write.parquet(str(parts[batch]))

    writer = workload.query(spark, workload.stream(spark, folder), folder).writeStream.foreachBatch(add)
    writer = writer.outputMode(workload.output_mode).option("checkpointLocation", str(where / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    shutil.rmtree(where / "checkpoint")
    return parts


def expected(folder: Path) -> pa.Table:
    """The oracle's rows."""
    return read(folder / "oracle" / ROWS)


def latest(folder: Path, keys: tuple[str, ...]) -> pa.Table:
    """The last of the oracle's rows with each of these `keys`: what a stream in update mode comes to."""
    parts = sorted((folder / "oracle" / ROWS).iterdir(), key=lambda part: int(part.name.removeprefix("batch-")))
    rows = pa.concat_tables([read(part) for part in parts])
    others = [name for name in rows.column_names if name not in keys]
    last = rows.group_by(list(keys), use_threads=False).aggregate([(name, "last") for name in others])
    return last.rename_columns([*keys, *others]).select(rows.column_names)


def read(folder: Path) -> pa.Table:
    """The rows of the Parquet files in and below a folder, with every time in microseconds of UTC."""
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
    schema = pa.schema([(field.name, field.type) for field in rows.schema])
    result = result.rename_columns(rows.column_names).cast(schema)
    exact = [field.name for field in rows.schema if not pa.types.is_floating(field.type)]
    # Floating numbers break ties only, so that what is compared with a tolerance rarely decides an order.
    order = [(name, "ascending") for name in [*exact, *(set(rows.column_names) - set(exact))]]
    result, rows = result.sort_by(order), rows.sort_by(order)
    return all(bool(compare.same(result[name], rows[name]).all()) for name in rows.column_names)


def differences(result: pa.Table, rows: pa.Table, keys: tuple[str, ...], most: int) -> list[str]:
    """The first `most` of what differs from the oracle's `rows`, in words; `keys` identify a row."""
    return list(islice(compare.differences(rows, result.rename_columns(rows.column_names), keys), most))
