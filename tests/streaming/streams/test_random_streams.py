"""Every random stream gives what plain Spark gives, batch by batch: rows, late rows, restarts, failing sinks, figures.

`PYSLASH_STREAMS` is their number, or a part of all (`400:600`), or `all`: as many as the matrix has cells (`cells`).
The results are kept in `build/streams`. `python -m tests.streaming.streams SEED` runs one of them and shrinks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.streaming.streams.cells import BETWEEN, FILES, OPERATORS, OTHERS, Cell, cell, cells, chosen
from tests.streaming.streams.draw import draw
from tests.streaming.streams.session import Streams, Tally, streams

SEEDS = chosen("PYSLASH_STREAMS", "23", FILES)
RESULTS = Path(__file__).parents[3] / "build" / "streams" / "files.jsonl"
AT_ONCE = 12
SHRINKING = 60
FOUND = {
    36: Cell("rate", "filter of the time, below the watermark", "window, in Spark's buffers", "update"),
    61: Cell("orc", "union with another watermark", "window", "append"),
    151: Cell("rate", "rand(seed)", "chain", "update"),
    646: Cell("parquet", "broadcast join, below the watermark", "dropDuplicatesWithinWatermark", "update"),
}
"""Streams that have found a fault: windows of a time that is no column, groups that came too late for some of their
windows, a key by `rand()`, rows without a time that count as 1970."""


@pytest.fixture(scope="module")
def engines(spark: SparkSession) -> Iterator[Streams]:
    with streams(spark) as made:
        yield made


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.mark.parametrize("first", SEEDS[::AT_ONCE])
def test_streams_are_sparks_batch_by_batch(engines: Streams, tally: Tally, first: int) -> None:
    tally += engines.check(range(first, min(first + AT_ONCE, SEEDS.stop)), RESULTS, SHRINKING)


def test_streams_that_have_found_faults_find_none(engines: Streams) -> None:
    engines.check_cases([draw(seed, of=of) for seed, of in FOUND.items()], RESULTS, SHRINKING)


@pytest.mark.skipif(len(SEEDS) < 20, reason=f"{len(SEEDS)} streams (PYSLASH_STREAMS) need not have all that is drawn")
def test_the_streams_have_what_they_are_to_prove(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\nrandom streams: {tally}", end=": ")
    assert tally.streams == len(SEEDS)
    assert min(tally.rows_out, tally.late, tally.no_data_batches, tally.restarts) > 0
    assert tally.errors > 0 or len(SEEDS) < 100


@pytest.mark.parametrize("sources", [FILES, OTHERS])
def test_as_many_seeds_as_cells_have_each_cell_once(sources: tuple[str, ...]) -> None:
    every = cells(sources)
    assert len(set(every)) == len(every) == len(sources) * len(BETWEEN) * len(OPERATORS)
    assert {cell(seed, sources) for seed in range(len(every))} == {*every}


def test_few_seeds_have_some_of_everything() -> None:
    found = [cell(seed, FILES) for seed in range(100)]
    assert {one.source for one in found} == {*FILES}
    assert {one.between for one in found} == {*BETWEEN}
    assert {(one.operator, one.mode) for one in found} == {*OPERATORS}
