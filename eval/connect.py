"""`python -m eval connect`: what a stream costs a client of Spark Connect, over the same stream in a classic session.

One application is both: its driver has a classic session, and a Connect server for a client in a process of its own. So
the two queries take turns in one JVM, asked about by one Python beside it, over the same files. Two bars: the seconds
from the first call to the end of the query, as the job sees them, and the processor time of all processes, which says
more on a machine that others use too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval import machine
from eval.bars import Bar
from eval.cluster.standalone import free_port
from eval.meter import MARK, Meter
from eval.one_session import median_and_error, plain_session
from eval.records import note
from eval.workloads import Aggregate, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
CLIENT, CLASSIC = "client", "classic"
MOST = 1.05
HOST = "127.0.0.1"
FOUND = "found: "  # before the JSON of a client's answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=10, help="runs of each, in turns")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "eval", help="for generated rows")
    parser.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")


def main(args: argparse.Namespace) -> int:
    """Measure and print; JSON lines beside."""
    args.cache.mkdir(parents=True, exist_ok=True)
    out = args.out or ROOT / "eval" / "results" / f"connect-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    workload = Aggregate(rows=args.rows, batches=args.batches, span_s=args.rows / 100_000)
    folder = workload.generate(args.cache)
    os.environ[MARK] = mark = uuid.uuid4().hex  # the JVM's, the client's, and of all that comes from them
    runs: dict[str, list[dict[str, Any]]] = {CLIENT: [], CLASSIC: []}
    with ExitStack() as stack:
        spark, url = stack.enter_context(application())
        client = stack.enter_context(Client.started(url, workload, args.cache))
        ways = {CLIENT: client.run, CLASSIC: lambda: run(spark, workload, folder)}
        for pair in range(-1, args.pairs):
            # Whoever goes first in one pair goes second in the next.
            for way in (CLIENT, CLASSIC) if pair % 2 else (CLASSIC, CLIENT):
                own = time.process_time()
                with Meter(mark) as meter:
                    found = ways[way]()
                found["cpu_seconds"] = meter.cpu_seconds + time.process_time() - own
                if pair >= 0:  # the first pair warms up
                    runs[way].append(found)
                    load = os.getloadavg()[0]
                    note(out, "", way=way, pair=pair, load=load, **found, machine=machine.describe())
                    print(
                        f"{way:8} {found['seconds']:7.2f} s {found['cpu_seconds']:7.1f} s of processor, load {load:.1f}"
                    )
    bars = [
        bar(name, *([one[figure] for one in runs[way]] for way in (CLIENT, CLASSIC)))
        for name, figure in (("time", "seconds"), ("processor time", "cpu_seconds"))
    ]
    print("\nbars", *bars, sep="\n")
    print(out)
    return 0


def bar(name: str, client: list[float], classic: list[float]) -> Bar:
    """The median of the pairs' ratios, and twice its standard error.

    Not measured where the bar lies within that error, or where there are too few pairs to know one.
    """
    ratios = [one / other for one, other in zip(client, classic, strict=True)]
    ratio, error = median_and_error(ratios)
    if len(ratios) < 4:
        return Bar(f"{name} of a client over a classic session", f"{ratio:.3f}", f"<= {MOST}", None)
    error *= 2
    met = None if ratio - error <= MOST < ratio + error else ratio <= MOST
    return Bar(f"{name} of a client over a classic session", f"{ratio:.3f} ± {error:.3f}", f"<= {MOST}", met)


def run(spark: SparkSession, workload: Workload, folder: Path) -> dict[str, Any]:
    """The stream in this session, whatever kind it is.

    Raises:
        RuntimeError: pyslash had no part in it, or it did not read every row.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="connect-", dir=folder.parent) as checkpoint:
        rows = workload.stream(spark, folder)
        writer = workload.query(spark, rows, folder).writeStream.format("noop").outputMode(workload.output_mode)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - began
        if not (Path(checkpoint) / "slash").is_dir():
            raise RuntimeError("the stream ran on plain Spark")
    progress = query.recentProgress
    # A client's progress has no sum of its own.
    read = sum(source["numInputRows"] for entry in progress for source in entry["sources"])
    if read != workload.rows:
        raise RuntimeError(f"the stream read {read} of {workload.rows} rows")
    return {"seconds": seconds, "batch_ms": [entry["durationMs"]["triggerExecution"] for entry in progress]}


@contextmanager
def application() -> Iterator[tuple[SparkSession, str]]:
    """A classic session with the plugin, and the address of the Connect server in its driver."""
    os.environ.setdefault("SPARK_LOCAL_IP", HOST)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyslash.spark.jvm_bridge import jar_path

    port = free_port(HOST)
    settings = {
        "spark.jars": str(jar_path()),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin,io.pyslash.SlashPlugin",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
    }
    spark = plain_session("connect", settings)
    try:
        yield spark, f"sc://{HOST}:{port}"
    finally:
        spark.stop()


class Client:
    """The process with the client's session."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def started(cls, url: str, workload: Aggregate, cache: Path) -> Iterator[Client]:
        """One that runs the workload whenever it is asked."""
        command = [sys.executable, "-m", "eval.connect", url, json.dumps(asdict(workload)), str(cache)]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield cls(process)
            finally:
                process.terminate()

    def run(self) -> dict[str, Any]:
        """As `run` in a classic session.

        Raises:
            RuntimeError: the client has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(FOUND):
                found: dict[str, Any] = json.loads(line.removeprefix(FOUND))
                return found
        raise RuntimeError("the client has ended")


def serve(url: str, parameters: str, cache: str) -> None:
    """Be the client: run the workload for each line of standard input."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(url).getOrCreate()
    spark.conf.set("spark.slash.mode", "require")
    workload = Aggregate(**json.loads(parameters))
    folder = workload.generate(Path(cache))
    for _ in sys.stdin:
        print(FOUND + json.dumps(run(spark, workload, folder)), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
