"""Plain Spark, given the micro-batches that another query had: its rows are the oracle where late ones are dropped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tests.support.stream import in_order


def keep_offsets(checkpoint: Path, folder: Path, epoch: int) -> None:
    """Copy the epoch's entry of the offset log, from inside `foreachBatch`: Spark forgets all but a hundred."""
    folder.mkdir(exist_ok=True)
    shutil.copy(checkpoint / "offsets" / f"{epoch}", folder)


def data_batches(checkpoint: Path, offsets: Path) -> Iterator[list[list[Path]]]:
    """The files of each micro-batch of a query over one file source; a list ends where one without data followed.

    Spark drops rows by the watermark of the micro-batch before, whether that had data or not.
    """
    files: dict[int, list[Path]] = {}
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            path = Path(entry["path"].removeprefix("file://"))
            if path not in files.setdefault(entry["batchId"], []):
                files[entry["batchId"]].append(path)
    run: list[list[Path]] = []
    before = -1
    for log in sorted(offsets.iterdir(), key=lambda path: int(path.name)):
        offset = json.loads(log.read_text().splitlines()[-1])["logOffset"]
        if offset == before:
            yield run
            run = []
        else:
            run.append(sorted(path for batch in range(before + 1, offset + 1) for path in files[batch]))
        before = offset
    yield run


def replay(
    spark: SparkSession, checkpoint: Path, offsets: Path, folder: Path, query: Callable[[DataFrame], DataFrame]
) -> tuple[list[Any], int]:
    """The rows that plain Spark's streaming gives for these micro-batches, and how many it has dropped as late.

    Args:
        spark: a session; `spark.slash.mode` must not be in its way.
        checkpoint: of the query that had them.
        offsets: what `keep_offsets` has kept of it.
        folder: an empty one.
        query: the job, over the stream of the files.
    """
    source, made = folder / "in", folder / "made"
    source.mkdir(parents=True)
    made.mkdir()
    runs = []
    for run in data_batches(checkpoint, offsets):
        runs.append([])
        for batch in run:
            path = made / f"{sum(map(len, runs)):06d}.parquet"
            pq.write_table(pa.concat_tables(pq.read_table(file) for file in batch), path)
            in_order(path, sum(map(len, runs)))
            runs[-1].append(path)
    schema = spark.read.parquet(str(made)).schema
    rows: list[Any] = []
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = query(stream).writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    started = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect())).start()
    dropped: dict[int, int] = {}
    try:
        for run in runs:
            for path in run:
                path.rename(source / path.name)
            started.processAllAvailable()
            for one in started.recentProgress:
                dropped[one.batchId] = sum(operator.numRowsDroppedByWatermark for operator in one.stateOperators)
    finally:
        started.stop()
    return rows, sum(dropped.values())
