"""A backlog after an outage, and a burst: how fast a query catches up, in how much memory, and what it says meanwhile.

    scripts/pipelines.sh && PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines.overload [--rows 50000000]

Both have JSON from a topic, windows by key in append mode, and Parquet. The backlog is there before the query starts,
and is read with each limit of `maxOffsetsPerTrigger` that makes at least four micro-batches of it. The burst comes at
five times what the query may take in a second, by a limit and a trigger, as jobs set them; the messages say what has to
be in the windows.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval import oracle
from eval.bars import Bar
from eval.broker import broker, connector
from eval.digest import digest
from eval.engines import ENGINES
from eval.engines.spark import SparkEngine, SparkRunner
from eval.kafka import MEMORY_GIB, PARTITIONS, PRODUCE, TOPIC, Users, in_a_process
from eval.meter import MARK, Meter
from eval.pipelines import topic
from eval.pipelines.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
SLASH = "slash"
LIMITS = (250_000, 1_000_000, 4_000_000)
LEAST_LATE_RATE = 0.8
BURST, BURST_TIMES, BURST_SECONDS, STEADY_SECONDS = "burst", 5, 6, 15
A_SECOND = 20_000  # that the query may take
KEYS, WINDOW_US = 1_000, 10_000_000
START_SECONDS, DRAIN_SECONDS = 120, 300
_MIB = 1 << 20


class OverloadError(Exception):
    """The query gives no rows, or does not end; the message has the end of its log."""


def session(name: str) -> SparkSession:
    """Of an engine, in this process."""
    engine = ENGINES[name]
    assert isinstance(engine, SparkEngine)
    spark = SparkRunner(engine, {**engine.settings(MEMORY_GIB, {}), "spark.jars": connector()}).spark
    if engine.slash:
        spark.conf.set("spark.slash.mode", "require")
    return spark


def windows(spark: SparkSession, address: str, source: str, limit: int, delay: str) -> DataFrame:
    """Rows and sums by user in windows of ten seconds, of a topic's JSON; 0 is no limit."""
    from pyspark.sql import functions as F

    options = {"kafka.bootstrap.servers": address, "subscribe": source, "startingOffsets": "earliest"}
    options |= {"maxOffsetsPerTrigger": str(limit)} if limit else {}
    records = spark.readStream.format("kafka").options(**options).load()
    events = records.select(F.from_json(F.col("value").cast("string"), Users.schema).alias("event")).select("event.*")
    return Users.aggregated(events, delay)


def drain(name: str, address: str, limit: int) -> dict[str, Any]:
    """The whole backlog, in this process."""
    spark = session(name)
    with tempfile.TemporaryDirectory(prefix="overload-", dir=ROOT / "build") as place:
        writer = windows(spark, address, TOPIC, limit, "10 seconds").writeStream
        writer = writer.option("checkpointLocation", f"{place}/checkpoint").option("path", f"{place}/rows")
        with Meter(os.environ[MARK]) as meter:
            query = writer.format("parquet").trigger(availableNow=True).start()
            query.awaitTermination()
        found = digest(oracle.flat(spark.read.parquet(f"{place}/rows")))
    batches = [one for one in query.recentProgress if one["numInputRows"]]
    spark.stop()
    return {
        "rows": [one["numInputRows"] for one in batches],
        "ms": [one["durationMs"]["triggerExecution"] for one in batches],
        "peak_bytes": meter.peak_bytes,
        "digest": astuple(found),
    }


def take_burst(name: str, address: str, source: str, folder: str) -> None:
    """The query of the burst, in this process, until it is killed; a line of progress for each micro-batch."""
    spark = session(name)
    writer = windows(spark, address, source, A_SECOND, "1 minute").writeStream
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint").option("path", f"{folder}/rows")
    query = writer.format("parquet").trigger(processingTime="1 second").start()
    told = -1
    while query.isActive:
        for one in query.recentProgress:
            if one["batchId"] > told:
                told = one["batchId"]
                behind = float((one["sources"][0]["metrics"] or {}).get("maxOffsetsBehindLatest", 0))
                print(json.dumps({"rows": one["numInputRows"], "behind": behind * topic.PARTITIONS}), flush=True)
        time.sleep(0.2)
    query.awaitTermination()


class Sender:
    """Sends events of now at a rate, and keeps what the windows have to have of them."""

    def __init__(self, address: str, to: str, keys: int = KEYS) -> None:
        """`keys`: how many users the events are of, in turn."""
        from confluent_kafka import Producer

        self._keys = keys
        self._producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 20})
        self._to = to
        self.windows: dict[tuple[int, str], tuple[int, int]] = {}
        self.sent = 0

    def send(self, count: int, at_us: int) -> None:
        """So many events of one moment."""
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at_us // 1_000_000))}.{at_us % 1_000_000:06}Z"
        for number in range(self.sent, self.sent + count):
            user, amount = f"user-{number % self._keys}", number % 997
            message = f'{{"event_time":"{stamp}","user_id":"{user}","page_id":"p","amount":{amount}}}'
            self._produce(message, number % topic.PARTITIONS)
            groups = (at_us // WINDOW_US * WINDOW_US, user)
            rows, total = self.windows.get(groups, (0, 0))
            self.windows[groups] = rows + 1, total + amount
        self.sent += count

    def end(self) -> None:
        """Messages that close all windows, one in each partition, of which no window is looked at."""
        for part in range(topic.PARTITIONS):
            self._produce('{"event_time":"2100-01-01T00:00:00Z","user_id":"end","amount":0}', part)
        self.flush()

    def flush(self) -> None:
        """Return when the broker has all.

        Raises:
            TopicError: it has not.
        """
        if left := self._producer.flush(DRAIN_SECONDS):
            raise topic.TopicError(f"the broker has not taken {left} messages")

    def _produce(self, message: str, part: int) -> None:
        while True:
            try:
                self._producer.produce(self._to, message.encode(), partition=part)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)


def burst(name: str, address: str) -> dict[str, Any]:
    """A steady half of what the query may take, then five times of it, then the half again until it has caught up."""
    source = "burst"
    topic.create(address, source)
    sender, lines = Sender(address, source), []
    with tempfile.TemporaryDirectory(prefix="overload-", dir=ROOT / "build") as folder:
        command = [sys.executable, "-m", "eval.pipelines.overload", "--one", BURST, "--engine", name]
        command += ["--address", address, "--source", source, "--folder", folder]
        log = Path(folder, "log")
        with log.open("wb") as errors, Path(folder, "progress").open("wb") as progress:
            engine = subprocess.Popen(command, stdout=progress, stderr=errors, cwd=ROOT)

        def told() -> list[dict[str, float]]:
            if engine.poll() is not None:
                raise OverloadError(f"{name} has ended: {log.read_text()[-4000:]}")
            return [json.loads(line) for line in Path(folder, "progress").read_text().splitlines()]

        def wait(what: str, seconds: float, done: Any) -> None:
            deadline = time.monotonic() + seconds
            while not done():
                if time.monotonic() > deadline:
                    raise OverloadError(f"{name}: not {what} in {seconds:g} s: {log.read_text()[-4000:]}")
                time.sleep(0.2)

        try:
            sender.send(A_SECOND // 2, time.time_ns() // 1000)
            sender.flush()
            wait("started", START_SECONDS, lambda: sum(one["rows"] for one in told()) >= sender.sent)
            for rate, seconds in ((0.5, STEADY_SECONDS), (BURST_TIMES, BURST_SECONDS), (0.5, STEADY_SECONDS)):
                begun = time.monotonic()
                for tenth in range(seconds * 10):
                    sender.send(round(A_SECOND * rate / 10), time.time_ns() // 1000)
                    time.sleep(max(0.0, begun + (tenth + 1) / 10 - time.monotonic()))
            sender.flush()
            wait("caught up", DRAIN_SECONDS, lambda: sum(one["rows"] for one in told()) >= sender.sent)
            caught_up = time.monotonic() - begun - STEADY_SECONDS
            sender.end()
            sent = sender.sent + topic.PARTITIONS
            wait("closed", DRAIN_SECONDS, lambda: sum(one["rows"] for one in told()) >= sent)
            wait("written", DRAIN_SECONDS, lambda: len(_rows(folder)) >= len(sender.windows))
            lines = told()
        finally:
            engine.kill()
            engine.wait()
        rows = _rows(folder)
    expected = Counter((*group, *value) for group, value in sender.windows.items())
    return {
        "sent": sender.sent,
        "behind": max(one["behind"] for one in lines),
        "behind_at_last": lines[-1]["behind"],
        "catch_up_seconds": caught_up,
        "windows": len(sender.windows),
        "verdict": Verdict.of(rows, expected),
    }


def _rows(folder: str) -> Counter[tuple[int, str, int, int]]:
    """What Spark's log of the sink says is written, without Spark: each row, and how often."""
    import pyarrow.parquet as pq

    found = Counter[tuple[int, str, int, int]]()
    log = Path(folder, "rows", "_spark_metadata")
    lines = [line for batch in log.glob("[0-9]*") for line in batch.read_text().splitlines()[1:]]
    for path in {json.loads(line)["path"] for line in lines}:  # a log that is compacted names those before it again
        for row in pq.read_table(path.removeprefix("file:")).to_pylist():
            start = round(row["window"]["start"].timestamp()) * 1_000_000
            found[start, row["user_id"], row["count"], row["sum"]] += 1
    return found


def _drained(name: str, address: str, limit: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "eval.pipelines.overload", "--one", "backlog", "--engine", name]
    command += ["--address", address, "--limit", str(limit)]
    environment = {**os.environ, MARK: secrets.token_hex(8)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        raise OverloadError(f"{name}: {done.stderr[-4000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _rate(figures: dict[str, Any], part: slice) -> float:
    rows, milliseconds = figures["rows"][part], figures["ms"][part]
    return float(sum(rows) / sum(milliseconds) * 1000)


def limits(rows: int) -> list[int]:
    """Those that make at least four micro-batches of so many rows."""
    return [limit for limit in LIMITS if limit <= rows // 4]


def backlog(name: str, address: str, rows: int) -> list[Bar]:
    """Drains it with every limit, and prints a line for each."""
    found = {}
    for limit in limits(rows):
        found[limit] = one = _drained(name, address, limit)
        late = _rate(one, slice(-len(one["rows"]) // 4, None)) / _rate(one, slice(len(one["rows"]) // 4, None))
        print(
            f"maxOffsetsPerTrigger {limit:>10,}{_rate(one, slice(1, None)) / 1e6:8.3f} M records/s, "
            f"{max(one['ms'][1:]) / 1000:6.1f} s the longest micro-batch, {one['peak_bytes'] // _MIB:6} MiB; "
            f"the last quarter of them at {late:.2f} of the rate",
            flush=True,
        )
        one["late"] = late
    digests = {json.dumps(one["digest"]) for one in found.values()}
    late = min(one["late"] for one in found.values())
    return [
        Bar("rows of all limits", f"{len(digests)} result(s)", "1 result", len(digests) == 1),
        Bar("the last quarter's rate / all", f"{late:.2f}x", f">= {LEAST_LATE_RATE}x", late >= LEAST_LATE_RATE),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m eval.pipelines.overload", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rows", type=int, default=50_000_000, help="of the backlog; 0: only the burst")
    parser.add_argument("--engine", choices=(SLASH, "spark-rocksdb"), default=SLASH)
    for hidden in ("--one", "--address", "--source", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rows and len(limits(given.rows)) < 2:
        parser.error(f"--rows {given.rows}: {4 * LIMITS[1]:,} or more, or there are no two limits to compare; or 0")
    if given.one == BURST:
        take_burst(given.engine, given.address, given.source, given.folder)
        return
    if given.one:
        print(json.dumps(drain(given.engine, given.address, given.limit)))
        return
    bars = []
    with broker(topic.PARTITIONS) as address:
        one = burst(given.engine, address)
        print(
            f"burst of {BURST_TIMES * A_SECOND:,} messages a second for {BURST_SECONDS} s, where a micro-batch takes "
            f"{A_SECOND:,} a second: {one['behind']:,.0f} behind at most as progress says, "
            f"{one['behind_at_last']:,.0f} at the end, caught up {one['catch_up_seconds']:.0f} s after the last message"
        )
        of = one["verdict"]
        figure = f"{of.lost}, {of.doubled}, {of.wrong}"
        bars.append(Bar(f"windows of {one['sent']:,} messages: lost, doubled, wrong", figure, "0, 0, 0", of.exact))
    if given.rows:
        with broker(PARTITIONS) as address:
            in_a_process(PRODUCE, address, "users", given.rows)
            bars += backlog(given.engine, address, given.rows)
    print("\nbars")
    for bar in bars:
        print(bar)


if __name__ == "__main__":
    main()
