"""Streams of records of text: their files, those of JSON, queries over these, and what a query gives batch by batch."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import pyslash
from pyslash.spark.jvm_bridge import JvmBridge
from tests.support.json_records import Records
from tests.support.stream import in_order

SCHEMA = "at timestamp, key string, kind string, value int, text string, deep struct<number: int, text: string>"
START = 1_700_000_000


def events(seed: int, count: int, start: int, share: float = 0.05) -> list[bytes]:
    """Records of JSON whose times run from `start` (seconds)."""

    def event(draw: random.Random, number: int, at: str) -> bytes:
        fields = {
            "at": at,
            "key": f"user-{draw.randrange(50)}",
            "kind": draw.choice(["view", "click", "ünknown", None]),
            "value": draw.randrange(-1000, 1000),
            "deep": {"number": number, "text": "\t"},
            "other": [1, {"x": None}],
        }
        return json.dumps(fields, ensure_ascii=draw.random() < 0.5).encode()

    return in_time(seed, count, start, share, event, Records(seed).record)


def in_time(
    seed: int,
    count: int,
    start: int,
    share: float,
    event: Callable[[random.Random, int, str], bytes],
    odd: Callable[[], bytes],
) -> list[bytes]:
    """Records whose times run from `start` (seconds): this share is odd or damaged, and one in a hundred late.

    `event` makes one of a source of chance, its number and its time.
    """
    draw, found = random.Random(seed), []
    for number in range(count):
        if draw.random() < share:
            found.append(odd())
            continue
        seconds = start + number * 0.01 - (200 if draw.random() < 0.01 else draw.random())
        found.append(event(draw, number, datetime.fromtimestamp(seconds, UTC).isoformat()))
    return found


def write(
    folder: Path,
    ending: str,
    events: Callable[[int, int, int, float], list[bytes]],
    plain: int = 0,
    header: bytes = b"",
) -> None:
    """Three files of events; so many others, none of them odd, are before these."""
    folder.mkdir()
    for batch in range(3):
        path = folder / f"{batch}.{ending}"
        records = events(batch + 100, plain, START + 20 * batch, 0)
        records += events(batch, 1000, START + 20 * batch + plain // 100, 0.05)
        path.write_bytes(header + b"\n".join(record.translate(None, b"\r\n") for record in records))
        in_order(path, batch)


def by_fields(rows: DataFrame) -> DataFrame:
    """Fields of the record, filters on them, and a column of Kafka's own."""
    parsed = rows.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event"), "partition")
    chosen = parsed.select("event.*", "partition").where("kind in ('view', 'click') and value is not null")
    grouped = chosen.withWatermark("at", "5 seconds").groupBy(F.window("at", "4 seconds"), "key", "partition")
    return grouped.agg(F.count("*"), F.sum("value"), F.max("text"), F.sum("deep.number"))


def by_a_time_of_its_own(rows: DataFrame) -> DataFrame:
    """The event time is computed from a string, and another operator stays above the watermark."""
    parsed = rows.select(
        F.from_json(F.col("value").cast("string"), SCHEMA.replace("timestamp", "string")).alias("event")
    )
    timed = parsed.selectExpr("try_cast(event.at as timestamp) at", "event.key", "event.value * 2 as twice")
    kept = timed.withWatermark("at", "5 seconds").where("twice > -1500")
    return kept.groupBy(F.window("at", "6 seconds", "3 seconds"), "key").agg(F.count("*"), F.min("twice"))


class Run:
    """A query that is run until its topic has nothing more, and again."""

    def __init__(self, rows: DataFrame, folder: Path, mode: str) -> None:
        self._rows, self._folder, self._mode = rows, folder, mode
        self.batches: list[tuple[int, list[Any]]] = []
        self.figures: list[Any] = []
        self.ours: list[dict[str, Any]] = []

    def go_on(self) -> None:
        """From its checkpoint, if it has one."""
        spark = self._rows.sparkSession
        spark.conf.set("spark.slash.mode", self._mode)
        writer = self._rows.writeStream.option("checkpointLocation", str(self._folder)).outputMode("append")
        query = writer.foreachBatch(self._keep).trigger(availableNow=True).start()
        query.awaitTermination()
        for one in query.recentProgress:
            # The mean is of microseconds where we count, of milliseconds in Spark.
            times = {name: time for name, time in one["eventTime"].items() if name != "avg"}
            self.figures.append((one["numInputRows"], times))
        if self._mode == "require":
            self.ours += pyslash.progress(query)

    def _keep(self, rows: DataFrame, number: int) -> None:
        self.batches.append((number, sorted(rows.collect(), key=repr)))

    def check_rows(self, plain: Run) -> None:
        """All that plain Spark gave, and its figures."""
        assert self.batches == plain.batches
        assert self.figures == plain.figures
        assert sum(len(batch) for _, batch in plain.batches) > 100

    def check(self, plain: Run, records: int) -> None:
        """All that plain Spark gave, and of so many records few that were left to it."""
        self.check_rows(plain)
        assert sum(one["late_rows"] for one in self.ours) > 0
        assert 0 < sum(one["records_by_spark"] for one in self.ours) < records * 0.1


def both(rows: DataFrame, folder: Path) -> tuple[Run, Run]:
    """A run of it by plain Spark and one by pyslash, with all that there is."""
    spark = rows.sparkSession
    pyslash.enable(spark)
    plain, native = Run(rows, folder / "plain", "off"), Run(rows, folder / "native", "require")
    try:
        plain.go_on()
        native.go_on()
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    return plain, native


def compare(rows: DataFrame, folder: Path) -> None:
    """Micro-batch by micro-batch."""
    plain, native = both(rows, folder)
    native.check(plain, records=3000)


def pages_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each update from now on the number of records that went to the accumulator in pages."""
    in_pages, update = [], JvmBridge.update

    def counted(bridge: JvmBridge, *order: object, **more: object) -> object:
        found = update(bridge, *order, **more)
        in_pages.append(bridge.input.in_pages)
        return found

    monkeypatch.setattr(JvmBridge, "update", counted)
    return in_pages
