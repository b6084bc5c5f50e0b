"""A query that moves between the engines at its restart gives plain Spark's rows, batch by batch, as if it had not.

`PYSLASH_MOVED_STREAMS` streams are drawn. Those whose state cannot be moved say so, and are counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from tests.streaming.streams.case import Case, Run
from tests.streaming.streams.draw import draw
from tests.streaming.streams.run import INTO_SLASH, INTO_SPARK, SPARK
from tests.streaming.streams.session import THREADS, Streams, streams

STREAMS = int(os.environ.get("PYSLASH_MOVED_STREAMS", "40"))
CANNOT = ("cannot be moved", "several with state", "several operators with state", "no committed batch")


@pytest.fixture(scope="module", params=[INTO_SLASH, INTO_SPARK])
def engines(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Streams]:
    with streams(spark, (SPARK, request.param)) as made:
        yield made


def moving(seed: int) -> Case:
    """The stream of a seed, with a restart at least."""
    case = draw(seed)
    if len(case.runs) > 1 or case.batches < 2:
        return case
    how, half = case.runs[0].how, case.batches // 2
    return replace(case, runs=(Run(how, half), Run(how, case.batches - half)))


@pytest.mark.timeout(900)
def test_rows_are_those_of_a_query_that_never_moved(engines: Streams, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        found = [*pool.map(lambda seed: engines.compare(moving(seed)), range(STREAMS))]
    stay = [one for one in found if one.lines and any(word in one.lines[0] for word in CANNOT)]
    differing = [one for one in found if one.lines and one not in stay]
    moved = [one for one in found if not one.lines]
    with capsys.disabled():
        print(
            f"\nmoved streams: {len(moved)} of {len(found)}, {sum(one.tally.late for one in moved)} late rows", end=": "
        )
    told = "\n\n".join([*map(str, differing[:1]), *(f"{one.case.seed}: {one.lines[:5]}" for one in differing)])
    if differing:
        pytest.fail(told, pytrace=False)
    assert len(moved) > len(found) / 4
