"""Random streams (`tests/streaming/streams`) from topics and from Delta tables: they give what plain Spark gives.

`PYSLASH_STREAMS_OF_OTHERS` is their number, or `all`: as many as the matrix has cells of these sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.streaming.streams.cells import OTHERS, cells
from tests.streaming.streams.proven import keep
from tests.streaming.streams.run import SLASH, SPARK
from tests.streaming.streams.session import Streams, streams
from tests.streaming.streams.test_sources import check, of_every_value

ALL = len(cells(OTHERS))
ASKED = os.environ.get("PYSLASH_STREAMS_OF_OTHERS", "10")
STREAMS = ALL if ASKED == "all" else int(ASKED)
RESULTS = Path(__file__).parents[2] / "build" / "streams" / "others.jsonl"
AT_ONCE = 12
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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, STREAMS, AT_ONCE))
def test_streams_are_sparks_batch_by_batch(engines: Streams, first: int) -> None:
    differing = []
    for comparison in engines.seeds(range(first, min(first + AT_ONCE, STREAMS))):
        keep(RESULTS, comparison.case, equal=not comparison.lines)
        if comparison.lines:
            differing.append(comparison)
    if differing:
        seeds = ", ".join(str(comparison.case.seed) for comparison in differing)
        pytest.fail(f"streams differ from Spark's: {seeds}\n{engines.smallest(differing[0], SHRINKING)}", pytrace=False)
