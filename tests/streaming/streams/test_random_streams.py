"""Every random stream gives plain Spark's rows, batch by batch: late rows, restarts, failing sinks, all of it.

`PYSLASH_STREAMS` is their number. `python -m tests.streaming.streams SEED` runs one of them and shrinks it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.streaming.streams.session import Streams, Tally, streams

STREAMS = int(os.environ.get("PYSLASH_STREAMS", "150"))
AT_ONCE = 25
SHRINKING = 60


@pytest.fixture(scope="module")
def engines(spark: SparkSession) -> Iterator[Streams]:
    with streams(spark) as made:
        yield made


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, STREAMS, AT_ONCE))
def test_rows_are_sparks_batch_by_batch(engines: Streams, tally: Tally, first: int) -> None:
    differing = []
    for comparison in engines.seeds(range(first, min(first + AT_ONCE, STREAMS))):
        tally += comparison.tally
        if comparison.lines:
            differing.append(comparison)
    if differing:
        seeds = ", ".join(str(comparison.case.seed) for comparison in differing)
        pytest.fail(f"streams differ from Spark's: {seeds}\n{engines.smallest(differing[0], SHRINKING)}", pytrace=False)


@pytest.mark.skipif(STREAMS < 100, reason=f"{STREAMS} streams (PYSLASH_STREAMS) need not have all that is drawn")
def test_the_streams_have_what_they_are_to_prove(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\nrandom streams: {tally}", end=": ")
    assert tally.streams == STREAMS
    assert min(tally.rows_out, tally.late, tally.no_data_batches, tally.restarts, tally.errors) > 0
