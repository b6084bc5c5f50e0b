"""Update and complete mode beside Spark's stores: throughput, and a small micro-batch over many open groups.

    python -m eval.modes [--rows 20000000] [--groups 1000000] [--batches 40]

Every engine has a process of its own and the same sink, which takes a digest of each micro-batch's rows: all engines'
are compared, of the runs that are measured.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval import machine, oracle
from eval.bars import Bar
from eval.digest import digest
from eval.engines import ENGINES
from eval.engines.spark import SparkRunner
from eval.meter import MARK, Meter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[1]
BASELINE, STATELESS = "spark-rocksdb", "stateless"
MEMORY_GIB = 4
EPOCH_US = 1_700_000_000_000_000
SMALL_ROWS = 1_000
WARM = 10  # small micro-batches whose time does not count


@dataclass(frozen=True)
class Case:
    """A query over micro-batches of `rows` rows each. `window`: in seconds, or none.

    `opens_all`: the first micro-batch has a row of each key, besides.
    """

    title: str
    mode: str
    keys: int
    window: int | None
    rows: int
    batches: int
    engines: tuple[str, ...]
    least: float | None = None  # ratio of throughput to the baseline
    opens_all: bool = False

    def write(self, folder: Path) -> None:
        """The files: one a core and micro-batch, which are read in the order of their times of change."""
        generator = np.random.default_rng(1)
        for batch in range(self.batches + (1 if self.opens_all else 0)):
            opens = self.opens_all and batch == 0
            keys = np.arange(self.keys) if opens else generator.integers(0, self.keys, self.rows)
            step = 20e6 if self.window else 1e6
            times = EPOCH_US + ((batch + np.sort(generator.random(len(keys)))) * step).astype(np.int64)
            values = generator.integers(-1_000_000, 1_000_000, len(keys))
            columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "key": keys, "value": values}
            path = folder / f"{batch:06d}.parquet"
            pq.write_table(pa.table(columns), path, row_group_size=-(-len(keys) // 4))
            os.utime(path, (1_000_000_000 + batch,) * 2)

    def query(self, rows: DataFrame, engine: str) -> DataFrame:
        """What an engine does with the rows."""
        from pyspark.sql import functions as F

        if engine == STATELESS:
            return rows.select("key", "value")
        window = [F.window("ts", f"{self.window} seconds")] if self.window else []
        grouped = rows.withWatermark("ts", "2 seconds").groupBy(*window, "key")
        return grouped.agg(F.sum("value").alias("sum"), F.count("*").alias("count"), F.max("value").alias("max"))


def cases(rows: int, groups: int, batches: int) -> list[Case]:
    """The comparisons."""
    stores = ("slash", BASELINE, "spark-hdfs")
    each = rows // 8
    return [
        Case("update, 100 k keys by window", "update", 100_000, 10, each, 8, stores, 3.0),
        Case("update, 1 M keys, no window", "update", 1_000_000, None, each, 8, stores, 3.0),
        Case("complete, 100 k keys, no window", "complete", 100_000, None, each, 8, stores, 2.0),
        Case(
            f"update, 1,000 rows a batch, {groups:,} groups open",
            "update",
            groups,
            None,
            SMALL_ROWS,
            batches + WARM,
            (*stores, STATELESS),
            opens_all=True,
        ),
    ]


def run(case: Case, engine: str, folder: Path) -> dict[str, Any]:
    """One stream over all files, in this process: seconds, milliseconds and digest of each micro-batch."""
    chosen: Any = ENGINES[engine]
    runner = SparkRunner(chosen, chosen.settings(MEMORY_GIB, {}))
    spark: SparkSession = runner.spark
    digests: list[Any] = []

    def sink(result: DataFrame, batch: int) -> None:
        found = digest(oracle.flat(result))
        digests.append([batch, found.rows, found.low, found.high])

    if chosen.slash:
        spark.conf.set("spark.slash.mode", "require")
    reader = spark.readStream.schema("ts timestamp, key bigint, value bigint").option("maxFilesPerTrigger", 1)
    result = case.query(reader.parquet(str(folder)), engine)
    mode = "append" if engine == STATELESS else case.mode
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="modes-", dir=folder.parent) as checkpoint:
        writer = result.writeStream.outputMode(mode).foreachBatch(sink).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - began
    progress = [entry for entry in query.recentProgress if "addBatch" in entry["durationMs"]]
    figures = {
        "seconds": seconds,
        "rows": sum(entry["numInputRows"] for entry in progress),
        "batch_ms": [entry["durationMs"]["triggerExecution"] for entry in progress],
        "digests": digests,
    }
    if chosen.slash:
        import pyslash

        epochs = pyslash.progress(query)
        figures["merged_by"] = sorted({str(epoch["merged_by"]) for epoch in epochs})
        for name in ("update_ms", "checkpoint_ms", "commit_ms", "merge_ms", "sink_ms"):
            figures[name] = round(sum(epoch[name] for epoch in epochs), 1)
    return figures


def measured(case: Case, engine: str, folder: Path) -> dict[str, Any]:
    """`run` in a process of its own, with the most memory that it and all that it started have had."""
    mark = secrets.token_hex(8)
    command = [sys.executable, "-m", "eval.modes", "--one", case.title, "--engine", engine, "--folder", str(folder)]
    process = subprocess.Popen(
        [*command, "--case", json.dumps(vars(case))],
        env={**os.environ, MARK: mark, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    with Meter(mark) as meter:
        out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{engine} failed at {case.title}: run {' '.join(command)} to see why")
    figures: dict[str, Any] = json.loads(out.splitlines()[-1])
    return {"title": case.title, "engine": engine, "peak_bytes": meter.peak_bytes, **figures}


def judged(case: Case, runs: dict[str, dict[str, Any]]) -> list[Bar]:
    """What the case's runs are held to."""
    rows = {json.dumps([one for one in run["digests"] if one[1]]) for name, run in runs.items() if name != STATELESS}
    bars = [Bar(f"{case.title}: rows of each micro-batch", f"{len(rows)} result(s)", "1 result", len(rows) == 1)]
    if case.least is not None:
        ratio = runs[BASELINE]["seconds"] / runs["slash"]["seconds"]
        bars.append(
            Bar(f"{case.title}: slash / {BASELINE}", f"{ratio:.2f}x", f">= {case.least:g}x", ratio >= case.least)
        )
    else:
        ratio = small_ms(runs["slash"]) / small_ms(runs[STATELESS])
        bars.append(Bar(f"{case.title}: slash / no aggregation", f"{ratio:.2f}x", "<= 1.2x", ratio <= 1.2))
    for store in (BASELINE, "spark-hdfs"):
        part = runs["slash"]["peak_bytes"] / runs[store]["peak_bytes"]
        bars.append(Bar(f"{case.title}: peak memory, slash / {store}", f"{part:.2f}x", "<= 1x", part <= 1))
    return bars


def small_ms(run: dict[str, Any]) -> float:
    """The median of small micro-batches, after the first ones."""
    return float(statistics.median(run["batch_ms"][1 + WARM :]))


def main() -> None:
    """Measure and print; JSON lines beside."""
    parser = argparse.ArgumentParser(prog="python -m eval.modes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=40, help="small micro-batches that count")
    parser.add_argument("--only", default="", help="comparisons whose title has this")
    parser.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")
    for hidden in ("--one", "--engine", "--folder", "--case"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(Case(**json.loads(given.case)), given.engine, Path(given.folder))))
        return
    out = given.out or ROOT / "eval" / "results" / f"modes-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    (ROOT / "build" / "eval").mkdir(parents=True, exist_ok=True)
    bars: list[Bar] = []
    for case in cases(given.rows, given.groups, given.batches):
        if given.only not in case.title:
            continue
        print(case.title, flush=True)
        with tempfile.TemporaryDirectory(prefix="modes-", dir=ROOT / "build" / "eval") as place:
            folder = Path(place, "rows")
            folder.mkdir()
            case.write(folder)
            runs = {}
            for engine in case.engines:
                runs[engine] = one = measured(case, engine, folder)
                with out.open("a") as file:
                    file.write(json.dumps({**one, "machine": machine.describe()}) + "\n")
                rate = one["rows"] / one["seconds"] / 1e6
                print(
                    f"  {engine:16}{rate:8.2f} M rows/s, {statistics.median(one['batch_ms']):8.0f} ms a micro-batch, "
                    f"{one['peak_bytes'] / 1e9:.2f} GB",
                    flush=True,
                )
        bars += judged(case, runs)
    print("\nbars", *bars, sep="\n")


if __name__ == "__main__":
    main()
