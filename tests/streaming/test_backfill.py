"""A query takes what another run of its job has made of older rows. The oracle is plain Spark, which reads both."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash import cli
from pyslash.api import backfill as api
from pyslash.errors import InvalidInputError, PlanMismatchError
from pyslash.migrate.export import export
from pyslash.spark.session import changed
from pyslash.state.backfill import Backfills
from pyslash.state.savepoint import fork, save
from pyslash.state.stored import StoredState
from tests.support.attempt import Attempt, add, make_stream, settings
from tests.support.backfilled import (
    FAULTS,
    LATER,
    Case,
    Fault,
    Job,
    Rows,
    fails_in_the_sink,
    loses_all_agents_with_it,
    rows_of,
    taken_once,
)
from tests.support.example import EXAMPLES
from tests.support.nightly import some_at_night
from tests.support.stream import seconds

US = pa.timestamp("us", "UTC")
TOO_LATE: Rows = [(1040, "a", 32), (1049, "late", 64)]
WINDOW = "window(ts, '10 seconds')"


def windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.expr(WINDOW), "k").agg(F.sum("v").alias("s"), F.count("*").alias("n"), F.avg("v"))


def sliding(rows: DataFrame) -> DataFrame:
    """With a buffer of Spark's own."""
    found = rows.groupBy(F.expr("window(ts, '20 seconds', '10 seconds')"))
    return found.agg(F.sum("v"), F.sort_array(F.collect_set("k")))


def keys_of_windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.expr(WINDOW), "k").agg(F.sum("v").alias("s"))


def keys(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.sum("v"), F.max("ts"))


def total(rows: DataFrame) -> DataFrame:
    return rows.agg(F.sum("v"), F.count("*"))


def newest_by_group(attempts: Iterable[Attempt]) -> dict[str, str]:
    """The last row of each group, by what stands before its aggregates."""
    rows = [row for one in attempts for _, rows in one.batches for row in rows]
    return {row.partition(", s=")[0].partition(", sum(v)=")[0].partition("sum(v)=")[0]: row for row in rows}


@pytest.mark.parametrize("job", [windows, sliding])
def test_windows_close_with_the_rows_of_both(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    case = Case(spark, tmp_path, job)
    before = case.run()
    case.backfill()
    case.later()
    after = case.run()
    assert after.error is None
    assert after.ran_on_pyslash
    found = rows_of([before, after])
    assert found == rows_of(case.expected())
    assert any("'old'" in row for row in found)
    assert not list((case.checkpoint / "slash/backfills").glob(".*"))


def test_a_query_that_was_plain_sparks_takes_it_too(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, windows)
    runs = [case.run(mode="off")]
    add(case.live, LATER[0])
    runs.append(case.run(adopt="true"))
    case.backfill()
    for rows in LATER[1:]:
        add(case.live, rows)
    runs.append(case.run())
    assert [one.error for one in runs] == [None] * 3
    found = rows_of(runs)
    assert found == rows_of(case.expected())
    assert any("'old'" in row for row in found)


@pytest.mark.parametrize("job", some_at_night([windows, keys, total], {keys, total}))
def test_what_has_changed_is_emitted_at_once_in_update_mode(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    case = Case(spark, tmp_path, job, "update")
    before = case.run()
    case.backfill()
    case.later()
    after = case.run()
    assert after.error is None
    assert newest_by_group([before, after]) == newest_by_group(case.expected())
    taken = after.batches[0][1]
    # The epoch that takes it emits its groups, too, whatever rows the epoch has.
    assert len(taken) > len(LATER[0]) or job is total


@pytest.mark.parametrize("job", some_at_night([keys, total], {total}))
def test_complete_mode_has_all_groups_from_then_on(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    case = Case(spark, tmp_path, job, "complete")
    case.run()
    case.backfill()
    case.later()
    after, (expected,) = case.run(), case.expected()
    assert after.error is None
    assert [rows for _, rows in after.batches] == [rows for _, rows in expected.batches[1:]]


def test_it_reads_all_of_the_history_where_queries_read_the_newest_first(spark: SparkSession, tmp_path: Path) -> None:
    """More small files than such a micro-batch opens."""
    case = Case(spark, tmp_path, total, "complete", history=[[(1060, "old", 1)]] * 40)
    assert case.run().error is None
    with changed(spark, {"spark.slash.backlog": "fresh-first"}):
        case.backfill()
    case.later()
    assert case.run().batches[-1][1] == case.expected()[-1].batches[-1][1]


def test_a_running_query_takes_it_with_its_next_batch_and_once(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, windows, "update")
    case.later()
    found = Attempt()

    def take(rows: DataFrame, epoch: int) -> None:
        found.batches.append((epoch, sorted(map(repr, rows.collect()))))
        if epoch == 1:
            for _ in range(2):  # the second time it is there
                case.backfill()

    with settings(spark, {"spark.slash.mode": "require"}):
        writer = windows(case.live.read()).writeStream.outputMode("update").foreachBatch(take)
        writer = writer.option("checkpointLocation", str(case.checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
    assert newest_by_group([found]) == newest_by_group(case.expected())
    assert [any("'old'" in row for row in rows) for _, rows in found.batches[:3]] == [False, False, True]
    assert case.run().error is None
    assert taken_in(case) == 2


@pytest.mark.parametrize("at", ["before it reads", "when it has read"])
def test_of_two_calls_at_once_one_makes_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    case = Case(spark, tmp_path, windows)
    before = case.run()
    read, begun = api._read, []

    def reads_beside_another(*of: Any) -> None:
        begun.append(of)
        if len(begun) > 1:
            return read(*of)
        if at == "when it has read":
            read(*of)
        other.append(case.backfill())
        if at == "before it reads":
            read(*of)
        return None

    other: list[object] = []
    monkeypatch.setattr(api, "_read", reads_beside_another)
    assert case.backfill() == other[0]
    assert len({location for _, _, location in begun}) == 2
    case.later()
    after = case.run()
    assert rows_of([before, after]) == rows_of(case.expected())
    assert [path.name for path in (case.checkpoint / "slash/backfills").iterdir()] == ["history"]


def test_groups_that_come_too_late_are_refused_or_dropped(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(spark, tmp_path, windows)
    before = case.run()
    add(case.history, TOO_LATE)
    with pytest.raises(InvalidInputError, match="2 groups may be part of what the query has emitted"):
        case.backfill()
    case.backfill("dropped", late="drop")
    # A second one, beside it.
    case.backfill("other", stream=make_stream(spark, tmp_path / "other", [[(1056, "x", 1)]]))
    case.later()
    after = case.run()
    assert after.error is None
    rows = rows_of([before, after])
    assert [row for row in rows if "'x'" not in row] == rows_of(case.expected())
    assert any("'x'" in row for row in rows)
    assert cli.main(["state", "list", str(case.checkpoint)]) == 0
    told = capsys.readouterr().out
    assert "backfills" in told
    assert told.count("taken in epoch 3") == 2


@pytest.mark.parametrize("fault", some_at_night(FAULTS, {loses_all_agents_with_it, fails_in_the_sink}))
def test_it_is_taken_once_whatever_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    case = Case(spark, tmp_path, windows)
    assert taken_once(case, fault, monkeypatch) == rows_of(case.expected())


def test_a_checkpoint_that_goes_back_takes_it_again(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, windows)
    before = case.run()
    case.backfill()
    copy = tmp_path / "copy"
    shutil.copytree(case.checkpoint, copy)
    case.later()
    first = rows_of([case.run()])
    # All but the backfill's records is as it was before.
    shutil.copytree(case.checkpoint / "slash/backfills/history/taken", copy / "slash/backfills/history/taken")
    shutil.rmtree(case.checkpoint)
    copy.rename(case.checkpoint)
    again = case.run()
    assert again.error is None
    assert rows_of([again]) == first
    assert rows_of([before, again]) == rows_of(case.expected())


def test_a_fork_has_taken_it_too(spark: SparkSession, tmp_path: Path) -> None:
    """And what the query has not taken by then is not the fork's, which may have a backfill of that name made."""
    case, folder = Case(spark, tmp_path, keys, "update"), tmp_path / "fork"
    assert case.run().error is None
    case.backfill()
    case.later()
    assert case.run().error is None
    case.backfill("another", stream=make_stream(spark, tmp_path / "other", [[(1056, "x", 1)]]))
    save(str(case.checkpoint), "saved")
    fork(str(case.checkpoint), "saved", str(folder))
    backfills = Backfills(str(folder))
    assert [one.name for one in backfills.all()] == ["history"]
    case.checkpoint = folder
    case.backfill()  # a script that is run again
    newest = StoredState.at(str(folder)).manifest()
    assert backfills.due(newest, lambda epoch: newest if epoch == newest.epoch else None, set()) == []


@pytest.mark.parametrize("meanwhile", [True, False])
def test_it_is_taken_once_by_a_query_that_was_plain_sparks_meanwhile(
    spark: SparkSession, tmp_path: Path, meanwhile: bool
) -> None:
    more = [*LATER, [(1300, "f", 1)]] if meanwhile else LATER
    case = Case(spark, tmp_path, keys, "complete", later=more)
    case.run()
    case.backfill()
    first, *others, last = more
    add(case.live, first)
    case.run()
    export(spark, str(case.checkpoint))
    if meanwhile:
        add(case.live, others.pop(0))
        assert case.run(mode="off").error is None
    for rows in others:
        add(case.live, rows)
    assert case.run(adopt="true").error is None
    case.backfill()  # as a job does at each start
    add(case.live, last)
    assert case.run().batches[-1][1] == case.expected()[-1].batches[-1][1]


def test_another_job_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, windows)
    case.run()
    case.output = "update"
    for job in (keys, lambda rows: rows.dropDuplicates(["ts", "k"]), lambda rows: windows(rows.dropDuplicates(["k"]))):
        case.job = job
        with pytest.raises(PlanMismatchError, match="not the job of the query"):
            case.backfill()
    with pytest.raises(InvalidInputError, match="is no name of a backfill"):
        case.backfill("../up")
    with pytest.raises(InvalidInputError, match="write one of refuse, drop"):
        case.backfill(late="keep")
    assert list((case.checkpoint / "slash").glob("backfills/*")) == []


def doubled(rows: DataFrame) -> DataFrame:
    """Its columns have the types of `windows`', and other values."""
    twice = F.expr("v * 2")
    return rows.groupBy(F.expr(WINDOW), "k").agg(F.sum(twice).alias("s"), F.count("*").alias("n"), F.avg(twice))


@pytest.mark.parametrize("job", some_at_night([keys_of_windows, doubled], {keys_of_windows}))
def test_a_query_that_has_changed_since_refuses_it_and_goes_on(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    case = Case(spark, tmp_path, windows)
    case.run()
    case.backfill()
    case.job = job
    case.later()
    after = case.run(plan_change="aggregates")
    assert after.error is None
    assert not any("'old'" in row for row in rows_of([after]))
    assert "the query has changed" in str(Backfills(str(case.checkpoint)).refusal("history"))


def test_a_history_without_a_row_is_told(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, windows)
    case.run()
    (tmp_path / "empty").mkdir()
    nothing = spark.readStream.schema(case.live.read().schema).parquet(str(tmp_path / "empty"))
    rows = windows(nothing.withWatermark("ts", "10 seconds"))
    with settings(spark, {}), pytest.raises(InvalidInputError, match="the history gives no micro-batch"):
        pyslash.backfill(rows, str(case.checkpoint), "none")
    assert list((case.checkpoint / "slash").glob("backfills/*")) == []


def test_the_examples_count_an_archive_and_tell_the_top_users(spark: SparkSession, tmp_path: Path) -> None:
    files = {
        "clicks/0": [(30, 1), (40, 2)],
        "archive/0": [(10, 1), (20, 3)],
        "clicks/1": [(50, 1)],
    }

    def run(example: str, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLES / example), *arguments, "--checkpoint", "checkpoint"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    for action, name in (("count", "clicks/0"), ("backfill", "archive/0"), ("count", "clicks/1")):
        times, users = zip(*files[name], strict=True)
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"clicked_at": pa.array(map(seconds, times), US), "user": users}), path)
        output = ["--output", "counts"] if action == "count" else []
        run("clicks_by_user.py", action, "--input", path.parent.name, *output)
        if name == "clicks/0":
            save(str(tmp_path / "checkpoint"), "monday")
    found = spark.read.parquet(str(tmp_path / "counts")).collect()
    everything = spark.read.parquet(*(str(tmp_path / f"{name}.parquet") for name in files))
    expected = everything.groupBy("user").agg(F.count("*"), F.max("clicked_at")).collect()
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected))
    for since, top in (([], [(1, 3), (2, 1), (3, 1)]), (["--since", "monday"], [(1, 2), (3, 1), (2, 0)])):
        lines = [line.strip("|").split("|") for line in run("top_users.py", *since).splitlines() if line[:1] == "|"]
        assert [tuple(map(int, line)) for line in lines[1:]] == top


def taken_in(case: Case) -> int | None:
    state = StoredState.at(str(case.checkpoint))
    return Backfills(str(case.checkpoint)).taken_in("history", state.manifest(), state.manifest)
