"""A stop, and how old answers are when the query is back: the newest records first, and in order.

    scripts/pipelines.sh && PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines.fresh [--rows 50000000]

A topic has JSON messages of the time of the stop, and more come at the rate at which those did. The query, windows by
user in update mode, starts behind all of them. How old its newest answer is: the time since the newest event that any
row it has given counts, looked at ten times a second, from ten seconds after the start until it has caught up. At the
end its last row of each group is compared with those of Spark's batch over the whole topic.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.bars import Bar
from eval.broker import broker, on_cores
from eval.kafka import cores
from eval.pipelines import overload, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
A_SECOND, USERS, WINDOW_SECONDS = 20_000, 100, 10
SCHEMA = "event_time timestamp, user_id string, page_id string, address string, amount bigint"
PRODUCE, QUERY = "produce", "query"
FRESH, ORDERED = "fresh-first", "ordered"
LIMIT = 1_000_000  # records of a micro-batch in order, as jobs set it for memory's sake
SETTLED_SECONDS = 10
MOST_AGE, LEAST_RATE = 2.0, 0.9
DEADLINE_SECONDS = 1800


def session(**conf: str) -> SparkSession:
    """Of pyslash, in this process."""
    spark = overload.session(overload.SLASH)
    for name, value in conf.items():
        spark.conf.set(f"spark.slash.{name}", value)
    return spark


def produce(address: str, to: str, rows: int) -> dict[str, Any]:
    """The messages of the time of the stop, which ends when they are all there, in this process."""
    from pyspark.sql import functions as F

    spark = session()
    begin_us = time.time_ns() // 1000 - rows * 1_000_000 // A_SECOND
    number = F.col("id")
    at = F.timestamp_micros(F.lit(begin_us) + number * (1_000_000 // A_SECOND))
    event = F.struct(
        F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("event_time"),
        F.concat(F.lit("user-"), (number % USERS).cast("string")).alias("user_id"),
        F.concat(F.lit("page-"), (number % 997).cast("string")).alias("page_id"),
        F.lit("10.0.0.1").alias("address"),
        (number % 1000).alias("amount"),
    )
    for part in range(topic.PARTITIONS):  # a partition is in order of time
        records = spark.range(part, rows, topic.PARTITIONS, 1)
        records = records.select(F.to_json(event).alias("value"), F.lit(part).alias("partition"))
        options = {"kafka.bootstrap.servers": address, "topic": to, "kafka.linger.ms": "50"}
        records.write.format("kafka").options(**options).option("kafka.batch.size", "262144").save()
    spark.stop()
    return {}


class Steady(threading.Thread):
    """Sends events of now, at the rate, until it is stopped."""

    def __init__(self, address: str, to: str) -> None:
        super().__init__(daemon=True)
        self._sender = overload.Sender(address, to, USERS)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Fifty times a second those of a fiftieth."""
        begun = time.monotonic()
        while not self._stopped.is_set():
            due = round((time.monotonic() - begun) * A_SECOND) - self._sender.sent
            self._sender.send(due, time.time_ns() // 1000)
            time.sleep(0.02)
        self._sender.flush()

    def stop(self) -> None:
        """Return when the broker has all."""
        self._stopped.set()
        self.join()


def query(address: str, source: str, order: str, latency: str) -> dict[str, Any]:
    """Start behind all that is there, until nothing is left, in this process."""
    spark = session(backlog=order, **{"backlog.latency": latency})
    options = {"kafka.bootstrap.servers": address, "subscribe": source, "startingOffsets": "earliest"}
    limit = {"maxOffsetsPerTrigger": str(LIMIT)} if order == ORDERED else {}
    rows = _windows(spark.readStream.format("kafka").options(**options, **limit).load())
    found: dict[tuple[Any, str], tuple[int, int]] = {}
    answers: list[tuple[float, float]] = []

    def take(batch: DataFrame, _: int) -> None:
        newest = answers[-1][1] if answers else 0.0
        for row in batch.collect():
            found[row["start"], row["user_id"]] = row["count"], row["sum"]
            newest = max(newest, row["newest"].timestamp())
        answers.append((time.time(), newest))

    with tempfile.TemporaryDirectory(prefix="fresh-", dir=ROOT / "build") as place:
        begun = time.time()
        started = rows.writeStream.foreachBatch(take).option("checkpointLocation", place).outputMode("update").start()
        print("started", flush=True)
        while started.isActive and time.time() < begun + DEADLINE_SECONDS:
            last = started.lastProgress
            if last is not None and last["numInputRows"] and not _is_behind(last["sources"][0]):
                break
            time.sleep(0.1)
        caught_up = time.time()
        print("caught up", flush=True)
        sys.stdin.readline()  # the sender has stopped
        started.processAllAvailable()
        started.stop()
        if started.exception() is not None:
            raise SystemExit(str(started.exception()))
    options["endingOffsets"] = "latest"
    whole = _windows(spark.read.format("kafka").options(**options).load()).collect()
    expected = {(row["start"], row["user_id"]): (row["count"], row["sum"]) for row in whole}
    spark.stop()
    return {
        "caught_up_seconds": caught_up - begun,
        "ages": _ages(answers, begun + SETTLED_SECONDS, caught_up),
        "fresh_after": next((at - begun for at, newest in answers if at - newest <= MOST_AGE), None),
        "groups": len(expected),
        "differ": differing(found, expected),
        "batches": len(answers),
    }


def differing(found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> int:
    """How many groups have another value, are lost, or are none."""
    return sum(found.get(group) != expected.get(group) for group in found.keys() | expected.keys())


def _windows(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    events = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    timed = events.withWatermark("event_time", "1 minute")
    grouped = timed.groupBy(F.window("event_time", f"{WINDOW_SECONDS} seconds"), "user_id").agg(
        F.count("*").alias("count"), F.sum("amount").alias("sum"), F.max("event_time").alias("newest")
    )
    return grouped.select(F.col("window.start").alias("start"), "user_id", "count", "sum", "newest")


def _is_behind(source: dict[str, Any]) -> bool:
    """Whether records of more than two seconds are still to be read."""
    offsets = source["endOffset"]
    offsets = json.loads(offsets) if isinstance(offsets, str) else offsets
    if "debt" in offsets:
        return True
    return float((source["metrics"] or {}).get("maxOffsetsBehindLatest", 0)) * topic.PARTITIONS > 2 * A_SECOND


def _ages(answers: list[tuple[float, float]], begin: float, end: float) -> list[float]:
    """Of the newest answer, ten times a second."""
    ages, at, place = [], begin, 0
    while at < end:
        while place + 1 < len(answers) and answers[place + 1][0] <= at:
            place += 1
        ages.append(at - answers[place][1])
        at += 0.1
    return ages


def measure(address: str, rows: int, order: str, latency: str) -> dict[str, Any]:
    """One run, with a topic of its own, each part of it in a process of its own."""
    to = f"events-{order}"
    topic.create(address, to)
    _child(PRODUCE, address, to, "--rows", str(rows)).communicate()
    child = _child(QUERY, address, to, "--order", order, "--latency", latency)
    assert child.stdout is not None
    sender = Steady(address, to)
    for line in child.stdout:
        if line.startswith("started"):
            sender.start()
        elif line.startswith("caught up"):
            sender.stop()
            break
    out, _ = child.communicate("go on\n")
    if child.returncode:
        raise SystemExit(f"the query in the order {order} has failed")
    figures: dict[str, Any] = json.loads(out.splitlines()[-1])
    return figures


def _child(what: str, address: str, source: str, *arguments: str) -> subprocess.Popen[str]:
    command = [*on_cores(cores()[0]), sys.executable, "-m", "eval.pipelines.fresh", "--one", what]
    command += ["--address", address, "--source", source, *arguments]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m eval.pipelines.fresh", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=50_000_000, help="messages of the time of the stop")
    parser.add_argument("--latency", default="2s", help="spark.slash.backlog.latency")
    for hidden in ("--one", "--address", "--source", "--order"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one == PRODUCE:
        print(json.dumps(produce(given.address, given.source, given.rows)))
        return
    if given.one == QUERY:
        print(json.dumps(query(given.address, given.source, given.order, given.latency)))
        return
    found = {}
    with broker(topic.PARTITIONS, cores()[1]) as address:
        for order in (ORDERED, FRESH):
            found[order] = one = measure(address, given.rows, order, given.latency)
            ages = one["ages"] or [float("nan")]
            print(
                f"{order:12} caught up after {one['caught_up_seconds']:6.1f} s, {one['batches']} micro-batches; first "
                f"answer of less than {MOST_AGE:g} s after {one['fresh_after'] or float('nan'):.1f} s; the newest "
                f"answer {statistics.median(ages):7.2f} s old (median), {max(ages):7.2f} s at most; "
                f"{one['differ']} of {one['groups']:,} groups differ",
                flush=True,
            )
    fresh, ordered = found[FRESH], found[ORDERED]
    rate = ordered["caught_up_seconds"] / fresh["caught_up_seconds"]
    age = statistics.median(fresh["ages"]) if fresh["ages"] else None  # it had caught up before the tenth second
    differ = fresh["differ"] + ordered["differ"]
    print("\nbars")
    told = ("not known", None) if age is None else (f"{age:.2f} s", age <= MOST_AGE)
    print(Bar("age of the newest answer, median", told[0], f"<= {MOST_AGE:g} s", told[1]))
    print(Bar("rate at which it catches up / in order", f"{rate:.2f}x", f">= {LEAST_RATE:g}x", rate >= LEAST_RATE))
    print(Bar("groups that differ from Spark's batch", f"{differ}", "0", not differ))


if __name__ == "__main__":
    main()
