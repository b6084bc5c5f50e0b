"""State that is larger than its arena, of operators that read it while an epoch is made: they know where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from tests.support.little_room import little_room, long_lived
from tests.support.processors import COVERED, WHY_NOT, transformed
from tests.support.ran import Query, ran
from tests.support.stream import Stream

KEYS, BATCHES, PROCESSED = 20_000, 8, 6_000


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    made = long_lived(spark, tmp_path, KEYS, BATCHES)
    with little_room(spark, tmp_path):
        yield made


def within_watermark(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicatesWithinWatermark(["k", "v"])


def sessions(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.session_window("ts", "15 seconds"), "k").agg(F.count("*"), F.sum("v"))


def lists(rows: DataFrame) -> DataFrame:
    texts = F.concat(F.lit("x" * 40), F.col("k").cast("string"), F.col("v").cast("string"))
    few = rows.where(F.col("k") < PROCESSED)
    return few.groupBy(F.window("ts", "1 minute"), F.col("k") % 1500).agg(F.sort_array(F.collect_set(texts)))


def keeping() -> StatefulProcessor:
    """Keeps a text of a key, and gives how long it has become."""

    class Keeping(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("kept", "text string")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            (text,) = self.state.get() or ("",)
            text += "".join(f"{row.v:30}" for row in rows)
            self.state.update((text,))
            yield Row(k=key[0], did="kept", gave=str(len(text)))

    return Keeping()


def processor(rows: DataFrame) -> DataFrame:
    few = rows.where(F.col("k") < PROCESSED).withColumn("k", F.col("k").cast("string"))
    return transformed(few, keeping(), "None")


@pytest.mark.parametrize("transport", ["auto", "tcp"])
@pytest.mark.parametrize(
    "query",
    [
        within_watermark,
        sessions,
        lists,
        pytest.param(processor, marks=pytest.mark.skipif(not COVERED, reason=WHY_NOT)),
    ],
)
@pytest.mark.usefixtures("processor_store")
def test_micro_batches_are_sparks(stream: Stream, query: Query, transport: str) -> None:
    conf = {"ingest": "rows", "transport": transport, "session.rewriteBytes": "1", "buffers.foldEpochs": "2"}
    found = ran(stream.read(), stream.folder, query, "append", "require", **conf)
    expected = ran(stream.read(), stream.folder, query, "append", "off")
    assert found.batches == expected.batches
    assert max(one["spilled_bytes"] for one in found.progress) > 0
    assert sum(one["recoveries"] for one in found.progress) == 0
