"""How soon a query with much state gives its next rows, once its driver has been started again: pyslash beside RocksDB.

    python -m eval.restarted [--keys 10000000] [--kind transformWithState] [--engines slash,spark-rocksdb]

The state is the user's own, a count and a sum of each key. Each application is a process of its own; what is measured
begins at the query's start, when Spark is there, and ends with a micro-batch of 1,000 keys.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval import machine
from eval.conf import add_conf
from eval.engines import ENGINES
from eval.workloads import Arbitrary
from eval.workloads.arbitrary import KINDS, ROWS
from eval.workloads.base import EPOCH_US, timestamps

ROOT = Path(__file__).resolve().parents[1]
FILES = 20
FEW = 1_000
HEAP_GIB = 4


def write(folder: Path, first: int, last: int) -> None:
    """One file, which is one micro-batch: a row for each of these keys."""
    keys = np.arange(first, last)
    times = timestamps(np.full(len(keys), EPOCH_US))
    rows = pa.table({"ts": times, "key": keys, "value": np.ones(len(keys), np.int64)})
    folder.mkdir(parents=True, exist_ok=True)
    at = folder / f"{len(list(folder.iterdir())):06d}.parquet"
    pq.write_table(rows, at, row_group_size=max(1, len(keys) // 4))


def application(pipe: Connection, engine: str, kind: str, folder: Path, conf: dict[str, str]) -> None:
    """Starts the query on what has been written, and ends with it. Sends its figures."""
    made = ENGINES[engine]
    runner: Any = made.open(made.settings(HEAP_GIB, conf))
    source = str(folder / "rows")
    spark = runner.spark
    stream = spark.readStream.schema(spark.read.parquet(source).schema).option("maxFilesPerTrigger", 1).parquet(source)
    began = time.perf_counter()
    writer = Arbitrary(kind=kind).query(spark, stream, folder).writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - began
    batches = [one for one in query.recentProgress if one["numInputRows"]]
    pipe.send(
        {
            "seconds": seconds,
            "batches": len(batches),
            "rows": sum(one["numInputRows"] for one in batches),
            "state_rows": batches[-1]["stateOperators"][0]["numRowsTotal"],
        }
    )
    runner.close()


def told_by(engine: str, kind: str, folder: Path, conf: dict[str, str]) -> dict[str, Any]:
    """The figures of an application.

    Raises:
        RuntimeError: it has ended without; its log is above.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=application, args=(theirs, engine, kind, folder, conf))
    process.start()
    theirs.close()
    try:
        told: dict[str, Any] = ours.recv()
    except EOFError as error:
        raise RuntimeError(f"the application on {engine} has ended without figures") from error
    finally:
        process.join()
    return told


def measure(engine: str, kind: str, keys: int, restarts: int, conf: dict[str, str]) -> list[dict[str, Any]]:
    """The figures of the application that has made the state, and of those that went on with it."""
    with tempfile.TemporaryDirectory(prefix="restarted-") as text:
        folder = Path(text)
        for file in range(FILES):
            write(folder / "rows", keys * file // FILES, keys * (file + 1) // FILES)
        found = [told_by(engine, kind, folder, conf)]
        for _ in range(restarts):
            write(folder / "rows", 0, FEW)
            found.append(told_by(engine, kind, folder, conf))
    expected = [(FILES, keys), *[(1, FEW)] * restarts]
    counted = found[-1]["state_rows"] or keys  # RocksDB, tuned, counts none
    if [(one["batches"], one["rows"]) for one in found] != expected or counted != keys:
        raise RuntimeError(f"the applications on {engine} have read other rows than were written: {found}")
    return found


def main() -> None:
    """Measure and print; JSON lines beside."""
    parser = argparse.ArgumentParser(prog="python -m eval.restarted", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--kind", choices=KINDS, default=ROWS)
    parser.add_argument("--engines", default="slash,spark-rocksdb")
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")
    add_conf(parser)
    given = parser.parse_args()
    out = given.out or ROOT / "eval" / "results" / f"restarted-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    for engine in given.engines.split(","):
        first, *others = measure(engine, given.kind, given.keys, given.restarts, given.conf)
        record = {"engine": engine, "kind": given.kind, "keys": given.keys, "made": first, "restarted": others}
        with out.open("a") as file:
            file.write(json.dumps({**record, "conf": given.conf, "machine": machine.describe()}) + "\n")
        again = ", ".join(f"{one['seconds']:.1f}" for one in others)
        print(f"{engine}: {given.keys:,} keys made in {first['seconds']:.1f} s; started again: {again} s", flush=True)
    print(out)


if __name__ == "__main__":
    main()
