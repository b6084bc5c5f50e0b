"""What the log files of a micro-batch cost: the same stream with Spark's own and with ours, in turns.

    python -m eval.log_files [--batches 30] [--rounds 8] [--s3 20] [--conf KEY=VALUE]

1,000 rows of Parquet a micro-batch, a checkpoint on the local disk, a noop sink: plain Spark without any aggregation,
and 10 s tumbling windows on pyslash, in one session. A micro-batch is what Spark says that its trigger took.
With `--s3` the checkpoint is in an S3 of this machine whose requests take so many milliseconds longer.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.object_store import slow_s3
from eval.one_session import keep, options, session
from eval.workloads import Aggregate, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1000
WARM_UP = 5  # the first micro-batches of a query make its folders, and compile its plan
ENGINES = ("plain Spark, no aggregation", "pyslash")
SPARKS, OURS = "spark", "auto"


def run(
    spark: SparkSession, workload: Workload, folder: Path, engine: str, logs: str, store: str | None = None
) -> list[float]:
    """Milliseconds of each micro-batch of one query, the first ones left out.

    `store`: where its checkpoint is to be; None: on the local disk.
    """
    spark.conf.set("spark.slash.logs", logs)
    spark.conf.set("spark.slash.mode", "require" if engine == "pyslash" else "auto")
    source = str(folder / "rows")
    stream = spark.readStream.schema(spark.read.parquet(source).schema).option("maxFilesPerTrigger", 1).parquet(source)
    frame = workload.query(spark, stream, folder) if engine == "pyslash" else stream
    with tempfile.TemporaryDirectory(prefix="logs-", dir=folder.parent) as checkpoint:
        location = f"{store}/{Path(checkpoint).name}" if store is not None else checkpoint
        writer = frame.writeStream.format("noop").option("checkpointLocation", location)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    times = [float(entry["durationMs"]["triggerExecution"]) for entry in query.recentProgress if entry["numInputRows"]]
    if len(times) != workload.batches:
        raise RuntimeError(f"{len(times)} of {workload.batches} micro-batches had rows")
    return times[WARM_UP:]


def measure(
    spark: SparkSession, workload: Workload, folder: Path, rounds: int, store: str | None = None
) -> list[dict[str, Any]]:
    """Each engine with each kind of log, in turns, after one run each that does not count."""
    found: list[dict[str, Any]] = []
    for turn in range(rounds + 1):
        for engine in ENGINES:
            for logs in (SPARKS, OURS) if turn % 2 else (OURS, SPARKS):
                times = run(spark, workload, folder, engine, logs, store)
                if turn:
                    found.append({"engine": engine, "logs": logs, "turn": turn, "ms": times})
    return found


def table(runs: list[dict[str, Any]]) -> str:
    """Of each engine the median micro-batch with either, and the median of the ratios of neighbours."""
    lines = [f"{'':30}{'Spark’s':>10}{'ours':>10}{'ratio':>8}"]
    for engine in ENGINES:
        medians = {(one["turn"], one["logs"]): statistics.median(one["ms"]) for one in runs if one["engine"] == engine}
        turns = sorted({turn for turn, _ in medians})
        ratio = statistics.median(medians[turn, OURS] / medians[turn, SPARKS] for turn in turns)
        cells = [statistics.median(medians[turn, logs] for turn in turns) for logs in (SPARKS, OURS)]
        lines.append(f"{engine:30}{cells[0]:7.0f} ms{cells[1]:7.0f} ms{ratio:8.2f}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print; JSON lines beside."""
    parser = argparse.ArgumentParser(prog="python -m eval.log_files", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=30, help="micro-batches of a query")
    parser.add_argument("--rounds", type=int, default=8, help="queries of each kind")
    parser.add_argument("--s3", type=float, metavar="MS", help="the checkpoint is on S3, by requests of so long")
    given = options(parser)
    workload = Aggregate(rows=given.batches * ROWS, batches=given.batches, span_s=10.0 * given.batches, keys=100)
    folder = workload.generate(given.cache)
    with slow_s3(given.s3) if given.s3 is not None else nullcontext((None, {})) as (store, settings):
        spark = session("log files", {**settings, **given.conf})
        runs = measure(spark, workload, folder, given.rounds, store)
        spark.stop()
    out = keep("log files", runs, workload, given)
    print(f"{ROWS:,} rows a micro-batch, {given.batches - WARM_UP} of them in each of {given.rounds} queries; {out}\n")
    print(table(runs))


if __name__ == "__main__":
    main()
