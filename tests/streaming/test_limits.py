"""A limit of what stateful operators give stays in Spark's plan, over rows that are pyslash's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession

from pyslash.driver.start import hook
from tests.streaming.test_keyed_aggregations import SCHEMA, add, by_window
from tests.support.ran import ran
from tests.support.stream import Stream


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=10)
    for batch in range(3):
        add(made, random.Random(batch), 1000 + 20 * batch)
    return made


class SinkError(Exception):
    """The job's own."""


class FailsOnce(list[list[Row]]):
    """What a sink was given; it refuses one micro-batch at the first attempt."""

    refused = 5
    has_failed = False

    def append(self, batch: list[Row]) -> None:
        if len(self) == self.refused and not self.has_failed:
            self.has_failed = True
            raise SinkError
        super().append(batch)


def test_as_many_groups_as_in_spark_come_in_each_micro_batch(stream: Stream) -> None:
    """Which ones is nobody's to say. In the second start the count goes on, and the sink fails, once."""
    before = ran(stream.read(), stream.folder / "all", by_window, "append", "off")
    most = sum(map(len, before.batches)) + 5
    found = {mode: FailsOnce() for mode in ("off", "require")}

    def run(mode: str) -> None:
        ran(stream.read(), stream.folder, lambda rows: by_window(rows).limit(most), "append", mode, found[mode])

    for mode in found:
        run(mode)
    assert found["require"] == found["off"] == before.batches
    hook._sweep()
    for batch in range(3, 6):
        add(stream, random.Random(batch), 1000 + 20 * batch)
    for mode in found:
        with pytest.raises(StreamingQueryException, match="SinkError"):
            run(mode)
        hook._sweep()
        run(mode)
    sizes = {mode: [len(batch) for batch in batches] for mode, batches in found.items()}
    assert sizes["require"] == sizes["off"]
    assert sum(sizes["off"]) == most
