"""Random streams (`tests/streaming/streams`) from topics and from Delta tables: they give what plain Spark gives.

`PYSLASH_STREAMS_OF_OTHERS` is their number, or a part of all (`100:200`), or `all`: as many as the matrix has cells of
these sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.streaming.streams.cells import OTHERS, chosen
from tests.streaming.streams.run import SLASH, SPARK
from tests.streaming.streams.session import Streams, streams
from tests.streaming.streams.test_sources import check, of_every_value

SEEDS = chosen("PYSLASH_STREAMS_OF_OTHERS", "12", OTHERS)
RESULTS = Path(__file__).parents[2] / "build" / "streams" / "others.jsonl"
AT_ONCE = 6
SHRINKING = 40


@pytest.fixture(scope="module")
def engines(spark: SparkSession, kafka: str, delta_jars: str) -> Iterator[Streams]:
    with streams(spark, (SPARK, SLASH), OTHERS, kafka) as made:
        yield made


@pytest.mark.parametrize("source", OTHERS)
def test_a_source_gives_the_rows_of_the_case(
    spark: SparkSession, kafka: str, delta_jars: str, tmp_path: Path, source: str
) -> None:
    check(spark, of_every_value(source), tmp_path, kafka)


@pytest.mark.parametrize("first", SEEDS[::AT_ONCE])
def test_streams_are_sparks_batch_by_batch(engines: Streams, first: int) -> None:
    engines.check(range(first, min(first + AT_ONCE, SEEDS.stop)), RESULTS, SHRINKING)
