"""A query that moves between the engines at its restart gives plain Spark's rows, batch by batch, as if it had not.

`PYSLASH_MOVED_STREAMS` streams are drawn for each direction, of those whose state can be moved. The long version runs
more of them.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count, islice

import pytest
from pyspark.sql import SparkSession

from tests.streaming.streams.case import Case, Run
from tests.streaming.streams.draw import draw
from tests.streaming.streams.run import INTO_SLASH, INTO_SPARK, SPARK
from tests.streaming.streams.session import THREADS, streams
from tests.streaming.streams.vocabulary import CONSTANT_KEYS

FORMED_OTHERWISE = ("struct(", "named_struct(", "current_date()")
CONSTANTS = {key for keys in CONSTANT_KEYS for key in keys}
STREAMS = int(os.environ.get("PYSLASH_MOVED_STREAMS", "5"))
LONG = 60
LEAST_ROWS = 30  # else there is little state to move
# A stream may have a state that stays where it is though `moving` does not see it: a cube of windows, say.
_REFUSED = re.compile("refused: (UnsupportedQuery|InvalidInput)Error: .* cannot be moved between plain Spark")
MOST_REFUSED = 5  # one of so many
# Drawn functions whose states cannot be moved.
_STAY: tuple[str, ...] = (
    *("first(", "last(", "any_value(", "_by(", "approx_count", "percentile", "median", "collect", "listagg", "mode("),
    *("string_agg", "struct(", "regr_", "covar", "corr("),
)


def moving(seed: int) -> Case | None:
    """The stream of a seed, with a restart at least; None if its state stays where it is."""
    case = draw(seed)
    slides = len(case.window) > 1 and case.window[0] != case.window[1]
    deduplicated = case.grouping.startswith("dropDuplicates")
    held = not deduplicated and any(word in call for call in case.aggregates for word in _STAY)
    held = held or case.grouping == "dropDuplicatesWithinWatermark"
    is_one = not case.gap and not case.join and not case.upper and ("unique",) not in case.after
    is_one = is_one and all(kind != "limit" for kind, *_ in case.above)  # which keeps state, too
    is_by_moments = "ts" in case.keys and not deduplicated
    # Structs have another form in Spark's state, and constants are not in it: such a query stays, and says so.
    is_by_others = any(key in CONSTANTS or key.startswith(FORMED_OTHERWISE) for key in case.keys)
    if slides or held or is_by_moments or is_by_others or not is_one or case.crash == 0:
        return None
    case = replace(case, sink="foreachBatch")
    if case.batches < 2 or case.rows < LEAST_ROWS:
        return None
    if len(case.runs) > 1:
        return case
    how, half = case.runs[0].how, case.batches // 2
    return replace(case, runs=(Run(how, half), Run(how, case.batches - half)))


def _check(spark: SparkSession, engine: str, cases: list[Case], capsys: pytest.CaptureFixture[str]) -> None:
    with streams(spark, (SPARK, engine)) as engines, ThreadPoolExecutor(THREADS) as pool:
        found = [*pool.map(engines.compare, cases)]
    refused = [one for one in found if len(one.lines) == 1 and _REFUSED.match(one.lines[0])]
    assert len(refused) * MOST_REFUSED <= len(found), [one.case.seed for one in refused]
    differing = [one for one in found if one.lines and one not in refused]
    with capsys.disabled():
        rows, late = (sum(getattr(one.tally, name) for one in found) for name in ("rows_out", "late"))
        print(f"\nstreams {engine}: {len(found)}, {rows} rows, {late} late ones", end=": ")
    if differing:
        told = [str(differing[0]), *(f"{one.case.seed}: {one.lines[:5]}" for one in differing)]
        pytest.fail("\n".join(told), pytrace=False)


def _cases(number: int, first: int = 0) -> list[Case]:
    return [*islice((case for seed in count(first) if (case := moving(seed)) is not None), number)]


@pytest.mark.parametrize("engine", [INTO_SLASH, INTO_SPARK])
def test_rows_are_those_of_a_query_that_never_moved(
    spark: SparkSession, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _check(spark, engine, _cases(STREAMS), capsys)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", [INTO_SLASH, INTO_SPARK])
def test_so_they_are_over_many_streams(spark: SparkSession, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    _check(spark, engine, _cases(LONG, 1000), capsys)
