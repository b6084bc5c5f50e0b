"""Backfills of sessions, deduplications and several operators. The oracle is plain Spark.

It reads both. What a deduplication has emitted stays as it is, so there the history comes to Spark with the batch that
takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.errors import InvalidInputError, PlanMismatchError, UnsupportedQueryError
from pyslash.state.backfill import Backfills
from tests.support.attempt import Attempt, add, make_stream
from tests.support.backfilled import (
    Case,
    Fault,
    Job,
    Rows,
    fails_before_the_manifest,
    fails_in_the_sink,
    loses_all_agents_after_the_manifest,
    loses_all_agents_with_it,
    rows_of,
    taken_once,
)
from tests.support.nightly import some_at_night

# The watermark is at 1064 when the history comes; sessions go on for five seconds.
OPEN: list[Rows] = [[(1061, "b", 1), (1056, "over", 1)], [(1064, "a", 2), (1074, "a", 4), (1066, "b", 8)]]
# It joins two sessions of `a`, begins that of `b` earlier, and has one of its own, which is closed by a later row.
MISSED: list[Rows] = [[(1069, "a", 16), (1065, "b", 32)], [(1068, "new", 64), (1090, "new", 128)]]
MORE: list[Rows] = [[(1080, "c", 256), (1072, "new", 512)], [(1200, "e", 1024)]]


HOMES = {"merge_driverBytes": "0"}  # executors keep what they merge, and read of the epoch's blocks alone


def sessions(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.session_window("ts", "5 seconds"), "k").agg(F.sum("v").alias("s"), F.count("*"))


def unique(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["k"])


def unique_in_time(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["ts", "k"])


def distinct(rows: DataFrame) -> DataFrame:
    return rows.select("ts", F.upper("k")).distinct()


def within_watermark(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicatesWithinWatermark(["k"])


def windows_of_unique(rows: DataFrame) -> DataFrame:
    found = rows.select("ts", "k").dropDuplicates(["ts", "k"])
    return found.groupBy(F.window("ts", "10 seconds")).agg(F.count("*"), F.collect_set("k"))


def windows_of_sessions(rows: DataFrame) -> DataFrame:
    found = rows.groupBy(F.session_window("ts", "5 seconds").alias("session"), "k").agg(F.sum("v").alias("s"))
    return found.groupBy(F.window(F.window_time("session"), "30 seconds")).agg(F.count("*"), F.sum("s"))


def session_case(spark: SparkSession, folder: Path, job: Job = sessions) -> Case:
    return Case(spark, folder, job, history=MISSED, live=OPEN, later=MORE)


# Keys that the query has emitted, and others; of some the batch that takes them has another row.
SEEN: list[Rows] = [[(1050, "a", 1), (1060, "b", 2)], [(1064, "c", 4), (1061, "a", 8)]]
REPEATED: list[Rows] = [
    [(1060, "b", 16), (1064, "c", 32), (1058, "old", 64), (1058, "old", 128), (1066, "x", 256)],
]
AGAIN: list[Rows] = [
    [(1066, "x", 512), (1067, "y", 1024), (1060, "b", 2048)],
    [(1068, "old", 4096), (1085, "z", 8192)],
    [(1071, "x", 1 << 14), (1072, "old", 1 << 15)],
]


def unique_case(spark: SparkSession, folder: Path, job: Job) -> Case:
    return Case(spark, folder, job, history=REPEATED, live=SEEN, later=AGAIN)


def run_around(case: Case) -> tuple[Attempt, list[str]]:
    """Its query before it has a backfill, and then with the rest of its stream, by homes: the latter, and all rows."""
    before = case.run(**HOMES)
    case.backfill()
    case.later()
    after = case.run(**HOMES)
    assert after.error is None
    assert after.ran_on_pyslash
    return after, rows_of([before, after])


@pytest.mark.parametrize("job", some_at_night([sessions, windows_of_sessions], {windows_of_sessions}))
def test_sessions_are_extended_and_bridged(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    case = session_case(spark, tmp_path, job)
    _, found = run_around(case)
    assert found == rows_of(case.expected())
    assert job is not sessions or any("k='a', s=22" in row for row in found)


def test_sessions_in_complete_mode_are_never_over(spark: SparkSession, tmp_path: Path) -> None:
    old: Rows = [(900, "a", 1), (1057, "b", 2)]
    case = Case(spark, tmp_path, sessions, "complete", history=[*MISSED, old], live=OPEN, later=MORE)
    case.run()
    case.backfill()
    case.later()
    after = case.run()
    assert after.error is None
    (expected,) = case.expected()
    assert [rows for _, rows in after.batches] == [rows for _, rows in expected.batches[1:]]


def test_sessions_that_may_touch_emitted_ones_are_refused_or_dropped(spark: SparkSession, tmp_path: Path) -> None:
    late: Rows = [(1050, "gone", 1), (1063, "a", 2), (1062, "new", 4), (1060, "over", 8)]
    case = Case(spark, tmp_path, sessions, history=[*MISSED, late], live=OPEN, later=MORE)
    before = case.run()
    with pytest.raises(InvalidInputError, match="4 groups may be part of what the query has emitted"):
        case.backfill()
    case.backfill(late="drop")
    case.later()
    after = case.run()
    assert after.error is None
    # Those that go on beyond the watermark are taken, as Spark takes their rows, and without what has been emitted.
    assert rows_of([before, after]) == rows_of(case.expected_at_once())


JOBS = [unique, unique_in_time, distinct, within_watermark]


@pytest.mark.parametrize("job", some_at_night(JOBS, {distinct, unique}))
def test_keys_that_were_not_emitted_are_and_no_others(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    case = unique_case(spark, tmp_path, job)
    after, found = run_around(case)
    assert found == rows_of(case.expected_at_once())
    assert sum("old" in row.lower() for row in after.batches[0][1]) == 1


@pytest.mark.parametrize("job", [unique_in_time, within_watermark])
def test_keys_that_may_have_been_forgotten_are_refused_or_dropped(
    spark: SparkSession, tmp_path: Path, job: Job
) -> None:
    late: Rows = [(1010, "a", 3), (1010, "gone", 5)]
    case = Case(spark, tmp_path, job, history=[*REPEATED, late], live=SEEN, later=AGAIN)
    before = case.run()
    with pytest.raises(InvalidInputError, match="2 groups may be part of what the query has emitted"):
        case.backfill()
    case.backfill(late="drop")
    case.later()
    after = case.run()
    assert after.error is None
    assert rows_of([before, after]) == rows_of(case.expected_at_once())


def test_one_backfill_comes_behind_the_other(spark: SparkSession, tmp_path: Path) -> None:
    case = unique_case(spark, tmp_path, unique)
    before = case.run()
    case.backfill()
    other: Rows = [(1058, "old", 7), (1059, "other", 9)]
    case.backfill("other", stream=make_stream(spark, tmp_path / "other", [other]))
    case.later()
    after = case.run()
    assert after.error is None
    rows = rows_of([before, after])
    assert [row for row in rows if "k='other'" not in row] == rows_of(case.expected_at_once())
    assert [sum("k='other'" in row for row in rows) for _, rows in after.batches[:2]] == [0, 1]


def test_windows_count_what_is_unique_of_both(spark: SparkSession, tmp_path: Path) -> None:
    case = unique_case(spark, tmp_path, windows_of_unique)
    before = case.run()
    case.backfill()
    case.later()
    after = case.run()
    assert after.error is None
    assert rows_of([before, after]) == rows_of(case.expected())


def test_rows_that_come_too_late_for_an_operator_above_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    case = unique_case(spark, tmp_path, lambda rows: windows_of_unique(rows.dropDuplicates(["k"])))
    case.run()
    add(case.history, [(1040, "late", 1)])
    with pytest.raises(InvalidInputError, match="may be part of what the query has emitted for good"):
        case.backfill()


def test_what_comes_too_late_by_then_is_refused_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    case = unique_case(spark, tmp_path, lambda rows: windows_of_unique(rows.dropDuplicates(["k"])))
    case.run()
    case.backfill()
    made, hidden = case.checkpoint / "slash" / "backfills", tmp_path / "hidden"
    made.rename(hidden)
    case.later()
    case.run()
    hidden.rename(made)
    add(case.live, [(1300, "end", 1)])
    after = case.run()
    assert after.error is None
    assert not any("'c', 'old'" in row or "'old', 'c'" in row for row in rows_of([after]))
    refusal = Backfills(str(case.checkpoint)).refusal("history")
    assert str(refusal).endswith(" of its groups may be part of what the query has emitted by now")


FAULTS: list[tuple[Job, Fault]] = [
    (sessions, loses_all_agents_with_it),
    (within_watermark, fails_before_the_manifest),
    (sessions, fails_before_the_manifest),
    (sessions, loses_all_agents_after_the_manifest),
    (within_watermark, loses_all_agents_with_it),
    (within_watermark, loses_all_agents_after_the_manifest),
    (unique, loses_all_agents_after_the_manifest),
    (windows_of_unique, loses_all_agents_with_it),
    (windows_of_unique, fails_in_the_sink),
]


@pytest.mark.parametrize("struck", some_at_night(FAULTS, FAULTS[2:]), ids=lambda one: " ".join(f.__name__ for f in one))
def test_it_is_taken_once_whatever_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, struck: tuple[Job, Fault]
) -> None:
    job, fault = struck
    case = session_case(spark, tmp_path) if job is sessions else unique_case(spark, tmp_path, job)
    found = taken_once(case, fault, monkeypatch)
    monkeypatch.undo()
    assert found == rows_of(case.expected() if job in (sessions, windows_of_unique) else case.expected_at_once())


def joined(rows: DataFrame) -> DataFrame:
    left, right = (rows.select("ts", F.col("k").alias(f"k{side}")) for side in (1, 2))
    return left.join(
        right.withColumnRenamed("ts", "at"), F.expr("k1 = k2 AND at BETWEEN ts AND ts + INTERVAL 1 MINUTE")
    )


def beside(rows: DataFrame) -> DataFrame:
    """The windows read a stream of their own."""
    both = rows.select("ts", "k").dropDuplicates(["ts", "k"]).union(rows.select("ts", "k"))
    return both.groupBy(F.window("ts", "10 seconds")).count()


def moments(rows: DataFrame) -> DataFrame:
    return rows.groupBy("ts").count()


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (joined, "it joins two streams"),
        (beside, "has one that reads a stream"),
        (moments, "its groups end at moments of event time"),
    ],
)
def test_what_takes_none_says_why(spark: SparkSession, tmp_path: Path, job: Job, why: str) -> None:
    case = Case(spark, tmp_path, job)
    case.run()
    with pytest.raises(UnsupportedQueryError, match=why):
        case.backfill()
    assert list((case.checkpoint / "slash").glob("backfills/*")) == []


def test_keys_in_another_order_are_asked_for_in_that_of_the_state(spark: SparkSession, tmp_path: Path) -> None:
    def by(*names: str) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: rows.select("k", "v").dropDuplicates([*names])

    case = Case(spark, tmp_path, by("k", "v"))
    case.run()
    case.job = by("v", "k")
    add(case.live, [(1300, "f", 1)])
    assert case.run().error is None
    with pytest.raises(PlanMismatchError, match="name them so for the backfill"):
        case.backfill()
    case.job = by("k", "v")
    case.backfill()
