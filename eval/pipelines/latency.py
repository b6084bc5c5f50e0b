"""How long a message takes from its creation to its row in another topic, in update mode, at a steady rate.

    scripts/pipelines.sh && PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines.latency [--per-second 5000]

Every engine has a process of its own, takes micro-batches as fast as it goes, and reads a topic of its own with
messages of the same keys. A message has arrived with the first row of its window and key that counts it: rows tell the
creation of the latest message in them, and a key's messages keep their sequence. The broker tells when it has a row.
Each engine tells at its end where its last micro-batches' time went.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path

from eval.bars import Bar
from eval.broker import broker, connector
from eval.conf import add_conf
from eval.engines import ENGINES
from eval.engines.spark import SparkEngine, SparkRunner
from eval.pipelines import topic
from eval.stream import PHASES

ROOT = Path(__file__).resolve().parents[2]
STATELESS, ROCKSDB, REAL_TIME, SLASH = "no aggregation", "spark-rocksdb", "spark-rtm", "slash"
RUNS = {STATELESS: ENGINES[ROCKSDB], **{name: ENGINES[name] for name in (ROCKSDB, REAL_TIME, SLASH)}}
MEMORY_GIB = 2
KEYS = 1_000
WINDOW_US = 10_000_000
MESSAGE = "created timestamp, created_us bigint, key string, value bigint"
MOST_OF_STATELESS = 1.15  # at the median
START_SECONDS, ARRIVE_SECONDS = 180, 60
STOP_SECONDS = 30
BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}


class LatencyError(Exception):
    """An engine gives no rows, or not all of them; the message has the end of its log."""


def query(name: str, address: str, source: str, to: str, folder: Path, conf: dict[str, str]) -> None:
    """One engine's query, in this process, until there is a file `stop`; then `phases.json` is written."""
    from pyspark.sql import functions as F

    import pyslash

    engine = RUNS[name]
    assert isinstance(engine, SparkEngine)
    spark = SparkRunner(engine, {**engine.settings(MEMORY_GIB, conf), "spark.jars": connector()}).spark
    if engine.slash:
        spark.conf.set("spark.slash.mode", "require")
    options = {"kafka.bootstrap.servers": address, "subscribe": source, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options).load()
    messages = records.select(F.from_json(F.col("value").cast("string"), MESSAGE).alias("one")).select("one.*")
    rows = messages.select("key", F.col("created_us").alias("latest_us"), "value")
    if name != STATELESS:
        timed = messages.withWatermark("created", "10 seconds")
        grouped = timed.groupBy(F.window("created", f"{WINDOW_US} microseconds"), "key")
        rows = grouped.agg(F.max("created_us").alias("latest_us"), F.sum("value").alias("value"), F.count("*"))
    sent = rows.select("key", F.to_json(F.struct("key", "latest_us", "value")).alias("value"))
    writer = sent.writeStream.format("kafka").option("kafka.bootstrap.servers", address).option("topic", to)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).outputMode("update")
    started = (writer.trigger(realTime="5 seconds") if engine.real_time else writer).start()
    while not (folder / "stop").exists():
        started.awaitTermination(1)
    phases = [each.durationMs for each in started.recentProgress if each.numInputRows]
    ours = [{phase: epoch[phase] for phase in PHASES} for epoch in pyslash.progress(started)[-len(phases) :]]
    (folder / "phases.json").write_text(json.dumps({**medians(phases), **medians(ours)}))


def medians(records: list[dict[str, float]]) -> dict[str, float]:
    """Of each figure that the last record has."""
    return {name: statistics.median(record.get(name, 0) for record in records) for name in (records or [{}])[-1]}


@dataclass
class Latencies:
    """Messages under way, by window and key, and the seconds that others took."""

    under_way: dict[tuple[int, str], deque[int]] = field(default_factory=lambda: defaultdict(deque))
    seconds: list[tuple[int, float]] = field(default_factory=list)

    def created(self, key: str, created_us: int) -> None:
        """A message was sent."""
        self.under_way[created_us // WINDOW_US, key].append(created_us)

    def arrived(self, key: str, latest_us: int, at_us: int) -> None:
        """A row of the sink counts all messages of its window and key up to that creation."""
        waiting = self.under_way[latest_us // WINDOW_US, key]
        while waiting and waiting[0] <= latest_us:
            created_us = waiting.popleft()
            self.seconds.append((created_us, (at_us - created_us) / 1e6))

    @property
    def missing(self) -> int:
        """How many messages are under way."""
        return sum(map(len, self.under_way.values()))

    def percentiles(self, since_us: int) -> tuple[float, float, float]:
        """The 50th, 95th and 99th in milliseconds, of messages that were created since then."""
        cuts = statistics.quantiles([1000 * each for created, each in self.seconds if created >= since_us], n=100)
        return cuts[49], cuts[94], cuts[98]


@dataclass(frozen=True)
class Measured:
    """The 50th, 95th and 99th percentile, and the median phases of the last micro-batches, in milliseconds."""

    percentiles: tuple[float, float, float]
    phases: dict[str, float]

    def __str__(self) -> str:
        cuts = "".join(f"  p{at} {ms:6.0f}" for at, ms in zip((50, 95, 99), self.percentiles, strict=True))
        return f"{cuts}   of a micro-batch: " + ", ".join(f"{name} {ms:.0f}" for name, ms in self.phases.items() if ms)


def measure(name: str, address: str, per_second: int, warm: int, seconds: int, conf: dict[str, str]) -> Measured:
    """One engine from its start, with these settings: it is warmed by so many seconds of messages, then measured.

    Raises:
        LatencyError: it gives no row in time, or not all of them.
    """
    from confluent_kafka import Producer

    source, to = f"messages-{name}".replace(" ", "-"), f"rows-{name}".replace(" ", "-")
    topic.create(address, source)
    topic.create(address, to, settings=BROKER_TIME)
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 1})
    rows, found, draw = topic.Messages(address, to), Latencies(), random.Random(1)

    def send(count: int) -> None:
        for _ in range(count):
            now_us, key = time.time_ns() // 1000, f"user-{draw.randrange(KEYS)}"
            stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_us // 1_000_000))}.{now_us % 1_000_000:06}Z"
            message = {"created": stamp, "created_us": now_us, "key": key, "value": draw.randrange(100)}
            found.created(key, now_us)
            # A key has one partition, so its messages come in sequence.
            producer.produce(
                source, json.dumps(message).encode(), partition=zlib.crc32(key.encode()) % topic.PARTITIONS
            )
        producer.poll(0)

    def take() -> None:
        for message in rows.read():
            row = json.loads(message.value())
            found.arrived(row["key"], row["latest_us"], message.timestamp()[1] * 1000)

    with tempfile.TemporaryDirectory(prefix="latency-") as made:
        folder = Path(made)
        command = [sys.executable, "-m", "eval.pipelines.latency", "--one", name]
        command += ["--address", address, "--source", source, "--to", to, "--folder", made]
        command += [f"--conf={key}={value}" for key, value in conf.items()]
        with (folder / "log").open("wb") as log:
            engine = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        try:
            begin = sent = ready = 0.0
            deadline = time.monotonic() + START_SECONDS
            send(1)
            while not ready or time.monotonic() < ready + warm + seconds:
                if engine.poll() is not None or (not ready and time.monotonic() > deadline):
                    raise LatencyError(f"{name} gives no rows: {(folder / 'log').read_text()[-4000:]}")
                take()
                if not ready and found.seconds:
                    begin = ready = time.monotonic()
                    since_us = time.time_ns() // 1000 + warm * 1_000_000
                if ready:
                    due = (time.monotonic() - begin) * per_second
                    send(int(due - sent))
                    sent += int(due - sent)
                time.sleep(0.002)  # the pace of this loop
            producer.flush()
            deadline = time.monotonic() + ARRIVE_SECONDS
            while found.missing:
                if time.monotonic() > deadline:
                    raise LatencyError(f"{name}: {found.missing} messages have not arrived")
                take()
                time.sleep(0.01)
            (folder / "stop").touch()
            engine.wait(STOP_SECONDS)
            phases = json.loads((folder / "phases.json").read_text())
        finally:
            engine.kill()
            engine.wait()
            rows.close()
    return Measured(found.percentiles(since_us), phases)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m eval.pipelines.latency", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--per-second", type=int, default=5_000)
    parser.add_argument("--warm", type=int, default=30, help="seconds")
    parser.add_argument("--seconds", type=int, default=60)
    add_conf(parser, "for every engine")
    for hidden in ("--one", "--address", "--source", "--to", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        query(given.one, given.address, given.source, given.to, Path(given.folder), given.conf)
        return
    found = {}
    with broker(topic.PARTITIONS) as address:
        print(f"{given.per_second:,} messages a second, milliseconds from a message's creation to its row")
        for name in RUNS:
            found[name] = measure(name, address, given.per_second, given.warm, given.seconds, given.conf)
            print(f"{name:16}{found[name]}")
    print("\nbars")
    ratio = found[SLASH].percentiles[0] / found[STATELESS].percentiles[0]
    print(Bar(f"p50, {SLASH} / {STATELESS}", f"{ratio:.2f}x", f"<= {MOST_OF_STATELESS}x", ratio <= MOST_OF_STATELESS))
    ratio = found[SLASH].percentiles[2] / found[ROCKSDB].percentiles[2]
    print(Bar(f"p99, {SLASH} / {ROCKSDB}", f"{ratio:.2f}x", "< 1x", ratio < 1))


if __name__ == "__main__":
    main()
