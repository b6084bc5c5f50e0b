"""What durability costs: the same stream with its epochs in a checkpoint on the local disk, and without, in turns.

    python -m eval.durability [--rows 20000000] [--repeats 5] [--conf KEY=VALUE]

100,000 keys, sum, count and max, 10 s tumbling windows, a noop sink: the bench of throughput, in one session.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.bars import Bar
from eval.one_session import keep, options, session
from eval.workloads import Aggregate, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT, LOST = "checkpoint", "off"
MOST = 0.25
PARTS = ("update_ms", "checkpoint_ms", "commit_ms", "merge_ms", "sink_ms", "checkpoint_bytes")


def run(spark: SparkSession, workload: Workload, folder: Path, durability: str) -> dict[str, Any]:
    """One stream over all rows: rows per second, and what its epochs' time went to."""
    import pyslash

    spark.conf.set("spark.slash.durability", durability)
    source = str(folder / "rows")
    rows = spark.readStream.schema(spark.read.parquet(source).schema)
    stream = rows.option("maxFilesPerTrigger", workload.files_per_batch).parquet(source)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="durability-", dir=folder.parent) as checkpoint:
        writer = workload.query(spark, stream, folder).writeStream.format("noop")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - began
    read = sum(entry["numInputRows"] for entry in query.recentProgress)
    if read != workload.rows:
        raise RuntimeError(f"the stream read {read} of {workload.rows} rows")
    epochs = pyslash.progress(query)
    parts = {name: round(sum(epoch[name] for epoch in epochs), 1) for name in PARTS}
    return {"durability": durability, "seconds": seconds, "rows_per_second": workload.rows / seconds, **parts}


def measure(spark: SparkSession, workload: Workload, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Each setting so many times, in turns, after one run each that does not count."""
    for durability in (KEPT, LOST):
        run(spark, workload, folder, durability)
    return [run(spark, workload, folder, durability) for _ in range(repeats) for durability in (LOST, KEPT)]


def bar(runs: list[dict[str, Any]]) -> Bar:
    """The part of the throughput that durability takes, by medians."""
    kept, lost = (median(runs, durability, "rows_per_second") for durability in (KEPT, LOST))
    cost = 1 - kept / lost
    return Bar("throughput that a checkpoint on the local disk costs", f"{cost:.1%}", f"<= {MOST:.0%}", cost <= MOST)


def median(runs: list[dict[str, Any]], durability: str, name: str) -> float:
    """Of a figure of the runs with this setting."""
    return float(statistics.median(one[name] for one in runs if one["durability"] == durability))


def table(runs: list[dict[str, Any]]) -> str:
    """Medians, one line a setting."""
    lines = [f"{'durability':12}{'M rows/s':>10}" + "".join(f"{name:>18}" for name in PARTS)]
    for durability in (LOST, KEPT):
        rate = median(runs, durability, "rows_per_second") / 1e6
        cells = "".join(f"{median(runs, durability, name):18,.0f}" for name in PARTS)
        lines.append(f"{durability:12}{rate:10.2f}{cells}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print; JSON lines beside."""
    parser = argparse.ArgumentParser(prog="python -m eval.durability", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = options(parser)
    workload = Aggregate(rows=given.rows, span_s=given.rows / 100_000)
    folder = workload.generate(given.cache)
    spark = session("durability", given.conf)
    runs = measure(spark, workload, folder, given.repeats)
    spark.stop()
    out = keep("durability", runs, workload, given)
    print(f"{given.rows:,} rows, medians of {given.repeats}; {out}\n")
    print(table(runs))
    print("\nbars", bar(runs), sep="\n")


if __name__ == "__main__":
    main()
