"""`python -m eval watch`: what it costs that users see what queries do.

One application with a UI, an event log and Prometheus' servlet, which is scraped every 5 s. The same small
micro-batches run with spark.slash.watch on and off, in alternating turns; Spark's own part of all that is in both.
Three bars: the time of a micro-batch; the processor time of the whole application, which has what other threads do for
it; and that of the epochs' events alone, posted again when all turns are done, which differs by little from run to run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

from eval import machine
from eval.bars import Bar
from eval.cluster.standalone import free_port
from eval.meter import MARK, Meter
from eval.one_session import median_and_error, session
from eval.records import note
from eval.workloads import Aggregate, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyslash.driver.watch import QueryWatch

Result = TypeVar("Result")
ROOT = Path(__file__).resolve().parents[1]
PROMETHEUS = "/metrics/prometheus"
MOST = 0.01
# The first epochs of a run find its agents and plan what later ones repeat.
WARM = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--epochs", type=int, default=1000, help="with everything switched on, and as many without")
    parser.add_argument("--turn", type=int, default=25, help="epochs of a turn")
    parser.add_argument("--rows", type=int, default=1000, help="of an epoch")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "eval", help="for generated rows")
    parser.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")


def main(args: argparse.Namespace) -> int:
    """Measure and print; JSON lines beside."""
    args.cache.mkdir(parents=True, exist_ok=True)
    epochs = args.turn + WARM
    workload = Aggregate(rows=args.rows * epochs, batches=epochs, span_s=10.0 * epochs, keys=100)
    folder = workload.generate(args.cache)
    turns = -(-args.epochs // args.turn)
    out = args.out or ROOT / "eval" / "results" / f"watch-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    times: dict[str, list[list[int]]] = {"false": [], "true": []}
    cpu: dict[str, list[float]] = {"false": [], "true": []}
    posts: list[Post] = []
    os.environ[MARK] = mark = uuid.uuid4().hex  # the JVM's, and of all that comes from it
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="watch-", dir=args.cache)))
        spark = stack.enter_context(watched(scratch))
        with timed(posts):
            for turn in range(-1, turns):
                # Whoever goes first in one pair goes second in the next.
                for switch in ("true", "false") if turn % 2 else ("false", "true"):
                    took, seconds = metered(mark, lambda switch=switch: run(spark, workload, folder, scratch, switch))
                    if turn >= 0:  # the first pair warms up
                        times[switch].append(took)
                        cpu[switch].append(seconds)
                        figures = {"milliseconds": took, "cpu_seconds": seconds}
                        note(out, "", watch=switch, turn=turn, **figures, machine=machine.describe())
        await_listeners(spark)
        _, seconds = metered(mark, lambda: post_again(spark, posts))
        again = seconds * 1000 / len(posts)
    for switch, name in (("true", "on"), ("false", "off")):
        means = [round(statistics.mean(took)) for took in times[switch]]
        count = sum(map(len, times[switch]))
        print(f"{name:4}{count:6} epochs, {median(times[switch]):7.1f} ms; means of turns: {means}")
    post, epoch = statistics.median(post.milliseconds for post in posts), median(times["true"])
    print(f"an epoch waits {post:.2f} ms for it (median of {len(posts)}), {post / epoch:.2%} of its time")
    # The first pair has posted too.
    whole = statistics.median(cpu["false"]) * 1000 / (len(posts) / (turns + 1))
    print(f"its event takes {again:.2f} ms of processor time, of {whole:.0f} that an epoch takes")
    note(out, "", event_cpu_ms=again, epoch_cpu_ms=whole)
    medians = [[statistics.median(took) for took in times[switch]] for switch in ("true", "false")]
    bars = [bar("throughput", *medians), bar("processor time", cpu["true"], cpu["false"])]
    part = again / whole
    bars.append(Bar("processor time of the events alone", f"{part:.2%}", f"<= {MOST:.0%}", part <= MOST))
    print("\nbars", *bars, sep="\n")
    print(out)
    return 0


def bar(name: str, watched: list[float], unwatched: list[float]) -> Bar:
    """The part that watching takes, of a figure of each turn.

    The two turns of a pair follow each other, so what else the machine does is mostly the same in both. An error that
    is larger than the bar judges nothing.
    """
    cost, error = median_and_error([1 - off / on for on, off in zip(watched, unwatched, strict=True)])
    return Bar(f"{name} that watching costs", f"{cost:.2%} ± {error:.2%}", f"<= {MOST:.0%}", max(cost, error) <= MOST)


def median(turns: list[list[int]]) -> float:
    """Of the mean milliseconds of each turn's epochs: a turn that something else has disturbed counts as any other."""
    return statistics.median(statistics.mean(took) for took in turns)


@dataclass(frozen=True)
class Post:
    """The call that tells what an epoch did, and how long the epoch waited for it."""

    watch: QueryWatch
    arguments: tuple[Any, ...]
    milliseconds: float


def post_again(spark: SparkSession, posts: list[Post]) -> None:
    """Until all listeners are done with them."""
    for post in posts:
        post.watch.epoch(*post.arguments)
    await_listeners(spark)


def await_listeners(spark: SparkSession) -> None:
    """Until they are done with all that the application has posted."""
    bus: Any = spark.sparkContext._jsc.sc().listenerBus()
    bus.waitUntilEmpty()


def metered(mark: str, call: Callable[[], Result]) -> tuple[Result, float]:
    """What a call gives, and its seconds of processor time: of this process, and of those with the mark."""
    began = time.process_time()
    with Meter(mark) as meter:
        result = call()
    return result, meter.cpu_seconds + time.process_time() - began


@contextmanager
def timed(posts: list[Post]) -> Iterator[None]:
    """Collect the posts of epochs."""
    from pyslash.driver.watch import QueryWatch

    epoch = QueryWatch.epoch

    def timed_epoch(watch: QueryWatch, *arguments: Any) -> None:
        begin = time.perf_counter()
        epoch(watch, *arguments)
        posts.append(Post(watch, arguments, (time.perf_counter() - begin) * 1000))

    with patch.object(QueryWatch, "epoch", timed_epoch):
        yield


def everything_shown(port: int, events: Path) -> dict[str, str]:
    """Settings of an application with a UI on that port, an event log in that folder, and Prometheus' servlet."""
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        "spark.metrics.conf.*.sink.prometheusServlet.path": PROMETHEUS,
    }


@contextmanager
def watched(scratch: Path) -> Iterator[SparkSession]:
    """An application in which everything can be seen, and somebody looks."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    port = free_port("127.0.0.1")
    events = scratch / "events"
    events.mkdir()
    spark = session("watch", everything_shown(port, events))
    done = threading.Event()

    def scrape() -> None:
        while not done.wait(5):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{PROMETHEUS}/", timeout=30) as answer:
                answer.read()

    scraper = threading.Thread(target=scrape, name="scraper", daemon=True)
    scraper.start()
    try:
        yield spark
    finally:
        done.set()
        scraper.join()
        spark.stop()


def run(spark: SparkSession, workload: Workload, folder: Path, scratch: Path, switch: str) -> list[int]:
    """One turn: milliseconds of each micro-batch with rows, without the first."""
    spark.conf.set("spark.slash.watch", switch)
    rows = workload.stream(spark, folder)
    with tempfile.TemporaryDirectory(dir=scratch) as checkpoint:
        writer = workload.query(spark, rows, folder).writeStream.queryName("watched").format("noop")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    batches = [done for done in query.recentProgress if done["numInputRows"]]
    if sum(done["numInputRows"] for done in batches) != workload.rows:
        raise RuntimeError(f"the stream read other rows than the {workload.rows} that there are")
    return [int(done["durationMs"]["triggerExecution"]) for done in batches[WARM:]]
