"""A query that is started again with other aggregates, on the checkpoint that it had.

Plain Spark is the oracle: it runs the new query from the beginning, stopped and started where pyslash was. An aggregate
that pyslash has gained has a `FILTER` there, which leaves out the rows before the change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.support.attempt import Attempt, attempt
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.int64()),
        ("v", pa.int64()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("batch", pa.int64()),
    ]
)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Of random rows, some of them late."""
    return Stream(spark, tmp_path, SCHEMA, delay_seconds=20)


def add(stream: Stream, batches: int) -> None:
    for _ in range(batches):
        number = len(stream.batches)
        rng = random.Random(number)
        values = rng.sample(range(number, 6000, 100), 60)  # no two of the stream are the same: max_by has one answer
        rows = [
            (
                seconds(1000 + 15 * number + rng.randrange(-25, 25)),
                rng.choice([None, *range(6)]),
                rng.choice([None, value, value, value]),
                rng.choice([None, 0.25, 1.5, -3.0]),
                rng.choice([None, "a", "b", "ab"]),
                number,
            )
            for value in values
        ]
        stream.add(pa.table(dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True)), SCHEMA))


@dataclass(frozen=True)
class Job:
    """What a query does but for its aggregates."""

    grouping: tuple[str, ...] = ("window(ts, '20 seconds')",)
    output: str = "append"

    def __str__(self) -> str:
        return f"{self.output} {' '.join(self.grouping)}"

    def of(self, stream: Stream, aggregates: Sequence[str]) -> DataFrame:
        grouping = [F.expr(one) for one in self.grouping]
        return stream.read().groupBy(*grouping, "k").agg(*[F.expr(one) for one in aggregates])


TUMBLING = Job()
SLIDING = Job(("window(ts, '30 seconds', '10 seconds')",))
UPDATE = Job(output="update")
GROUPS = Job((), "update")
ALL_GROUPS = Job((), "complete")
SESSIONS = Job(("session_window(ts, '6 seconds')",))


def nightly(*jobs: Job) -> list[Any]:
    return [pytest.param(job, marks=pytest.mark.nightly) for job in jobs]


def runs(
    stream: Stream, job: Job, before: Sequence[str], now: Sequence[str], reference: Sequence[str], **conf: Any
) -> tuple[Attempt, Attempt]:
    """The new query's batches, on state of the old one by pyslash, and by plain Spark; both restarted once more."""
    checkpoint, spark_checkpoint = stream.folder / "checkpoint", stream.folder / "spark"
    add(stream, 2)
    first = attempt(job.of(stream, before), checkpoint, output=job.output, **conf)
    assert first.error is None
    assert first.ran_on_pyslash
    attempt(job.of(stream, reference), spark_checkpoint, "off", output=job.output)
    found, expected = Attempt(), Attempt()
    for batches in (2, 1):
        add(stream, batches)
        later = attempt(job.of(stream, now), checkpoint, output=job.output, **conf)
        if later.error is not None:
            raise later.error
        assert later.ran_on_pyslash
        found.batches += later.batches
        found.query = later.query
        expected.batches += attempt(job.of(stream, reference), spark_checkpoint, "off", output=job.output).batches
    return found, expected


# No strings: for those Spark sorts rows, and `first` and `last` are of any of them.
BEFORE = [
    "count(*) AS n",
    "sum(v) AS s",
    "first(d) AS f",
    "max_by(d, v) AS m",
    "round(stddev(d), 9) AS d",
    "min(v) AS lo",
    "first(s)",
]
# Dropped: min, first(s). In another order, by other names; avg and count follow from the states of sum.
EXACT = [
    "round(stddev(d), 9) AS spread",
    "avg(v) AS mean",
    "max_by(d, v) AS best",
    "first(d) AS start",
    "sum(v) AS total",
    "count(v)",
    "count(*)",
]


@pytest.mark.parametrize(
    "job",
    [UPDATE, *nightly(TUMBLING, SLIDING, GROUPS, ALL_GROUPS, SESSIONS)],
    ids=str,
)
def test_what_is_dropped_renamed_or_follows_from_others_gives_sparks_rows(stream: Stream, job: Job) -> None:
    skipped = "first" if job is SESSIONS else "-"  # Spark's own choice there
    before, now = ([one for one in every if not one.startswith(skipped)] for every in (BEFORE, EXACT))
    found, expected = runs(stream, job, before, now, now)
    assert found.batches == expected.batches
    assert any(rows for _, rows in found.batches)


def since(batch: int, aggregate: str) -> str:
    """The aggregate over the rows from a batch on, whatever there was before."""
    call, _, name = aggregate.partition(" AS ")
    return f"{call} FILTER (WHERE batch >= {batch}) AS {name}"


# Over columns that have a history with other aggregates, and over some that have none.
GAINED = ["max(v) AS hi", "last(d) AS l", "count(s) AS c", "min_by(v, d + v) AS m", "approx_count_distinct(v) AS a"]


@pytest.mark.parametrize(
    ("job", "ingest"),
    [
        (TUMBLING, "files"),
        *(
            pytest.param(job, ingest, marks=pytest.mark.nightly)
            for job, ingest in [
                (TUMBLING, "rows"),
                (SLIDING, "rows"),
                (SESSIONS, "rows"),
                (UPDATE, "files"),
                (GROUPS, "rows"),
                (ALL_GROUPS, "rows"),
            ]
        ),
    ],
    ids=str,
)
def test_what_is_gained_covers_the_rows_since_then(stream: Stream, job: Job, ingest: str) -> None:
    gained = GAINED[:3] if ingest == "files" else GAINED  # Spark itself reads the files of expressions
    gained = [one for one in gained if job is not SESSIONS or not one.startswith("last")]
    before = [one for one in BEFORE if job is not SESSIONS or not one.startswith("first")]
    reference = ["sum(v) AS s", *(since(2, one) for one in gained)]
    found, expected = runs(
        stream, job, before, ["sum(v) AS s", *gained], reference, ingest=ingest, plan_change="aggregates"
    )
    assert found.batches == expected.batches
    assert any(rows for _, rows in found.batches)
    assert found.query is not None
    assert pyslash.progress(found.query)[0]["ingest"] == ingest


BUFFERS = ["collect_list(v) AS vs", "count(*) AS n", "sum(v) AS s", "percentile(v, 0.5) AS p"]


@pytest.mark.nightly
def test_functions_in_buffers_of_spark_come_and_go_beside_others(stream: Stream) -> None:
    now = ["percentile(v, 0.5) AS median", "sum(v) AS s", "count(*) AS rows", "collect_set(s) AS ss", "max(v) AS hi"]
    reference = [*now[:3], *(since(2, one) for one in now[3:])]
    found, expected = runs(stream, TUMBLING, BUFFERS, now, reference, plan_change="aggregates")
    assert [(epoch, _sets_in_order(rows)) for epoch, rows in found.batches] == [
        (epoch, _sets_in_order(rows)) for epoch, rows in expected.batches
    ]
    assert any(rows for _, rows in found.batches)


def test_older_lists_of_a_key_without_rows_are_folded(stream: Stream) -> None:
    """Of a function that the query has had for less time, there is no list at all then."""

    def add_rows(key: int, batches: int) -> None:
        for number in range(len(stream.batches), len(stream.batches) + batches):
            columns = [[seconds(1000 + number)], [key], [number], [0.5], ["a"], [number]]
            stream.add(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA))

    conf: dict[str, Any] = {"output": "update", "buffers_foldEpochs": "16"}
    add_rows(1, 9)
    assert attempt(GROUPS.of(stream, ["collect_list(v) AS vs"]), stream.folder / "c", **conf).error is None
    add_rows(2, 9)
    gained = ["collect_set(d) AS ds", "collect_list(v) AS vs"]
    later = attempt(GROUPS.of(stream, gained), stream.folder / "c", plan_change="aggregates", **conf)
    assert later.error is None
    assert [len(rows) for _, rows in later.batches if rows] == [1] * 9
    assert all(row.startswith("Row(k=2,") for _, rows in later.batches for row in rows)
    add_rows(1, 1)
    last = attempt(GROUPS.of(stream, gained), stream.folder / "c", plan_change="aggregates", **conf)
    assert [row for _, rows in last.batches for row in rows] == [
        "Row(k=1, ds=[0.5], vs=[0, 1, 2, 3, 4, 5, 6, 7, 8, 18])"
    ]


def _sets_in_order(rows: list[str]) -> list[str]:
    """Elements of a set have no order."""
    return [re.sub(r"ss=\[(.*?)\]", lambda found: f"ss={sorted(found[1].split(', '))}", row) for row in rows]


@pytest.mark.parametrize("durability", ["both", pytest.param("checkpoint", marks=pytest.mark.nightly)])
def test_an_unfinished_batch_is_computed_again_by_the_new_query(stream: Stream, durability: str) -> None:
    """The agents of the old query live, with its blocks; executors have kept its groups."""
    checkpoint, spark_checkpoint = stream.folder / "checkpoint", stream.folder / "spark"
    reference = ["sum(v) AS s", *(since(2, one) for one in GAINED)]
    conf: dict[str, Any] = {"durability": durability, "merge_driverBytes": "0", "plan_change": "aggregates"}
    add(stream, 2)  # a batch without rows follows them
    assert attempt(GROUPS.of(stream, BEFORE), checkpoint, output="update", **conf).error is None
    attempt(GROUPS.of(stream, reference), spark_checkpoint, "off", output="update")
    add(stream, 2)
    failed = attempt(GROUPS.of(stream, BEFORE), checkpoint, fail_in=3, output="update", **conf)
    assert failed.error is not None
    now = GROUPS.of(stream, ["sum(v) AS s", *GAINED])
    # The batch that the old query has computed fails again, now with the new one's rows, and is replayed.
    assert attempt(now, checkpoint, fail_in=3, output="update", **conf).error is not None
    found = attempt(now, checkpoint, output="update", **conf)
    expected = attempt(GROUPS.of(stream, reference), spark_checkpoint, "off", output="update")
    assert found.error is None
    assert [epoch for epoch, _ in found.batches] == [3, 4, 5]
    assert found.batches == expected.batches
    assert found.query is not None
    assert pyslash.progress(found.query)[0]["replayed"]


REFUSED = [
    (TUMBLING, "max(v) AS hi", r"max\(v\) is new: for groups that had rows before batch 2"),
    (TUMBLING, "sum(cast(v AS int)) AS s", r"sum\(CAST\(v AS INT\)\) is new[^$]*sum\(v\) is dropped"),
    (Job(("window(ts, '10 seconds')",)), "sum(v) AS s", "the window: 0:00:20 -> 0:00:10"),
    (Job((*TUMBLING.grouping, "s")), "sum(v) AS s", "key 1: s|a key added"),
    (TUMBLING, "collect_list(v)", r"collect\(.*collect_list\(v\).* is the first function in buffers"),
]


def test_what_cannot_be_projected_is_refused_and_the_query_continues_as_it_was(stream: Stream) -> None:
    add(stream, 1)
    checkpoint = stream.folder / "checkpoint"
    attempt(TUMBLING.of(stream, ["sum(v) AS s"]), checkpoint)
    add(stream, 1)
    for job, now, told in REFUSED:
        refused = attempt(job.of(stream, [now]), checkpoint)
        assert "PlanMismatchError" in str(refused.error)
        assert re.search(told, str(refused.error)), refused.error
    continued = attempt(TUMBLING.of(stream, ["sum(v) AS s"]), checkpoint)
    assert continued.error is None
    assert continued.batches


@pytest.mark.nightly
@pytest.mark.parametrize("durability", ["off", "replica"])
def test_state_in_memory_alone_stays_as_it_was(stream: Stream, durability: str) -> None:
    add(stream, 1)
    checkpoint = stream.folder / "checkpoint"
    attempt(TUMBLING.of(stream, ["sum(v) AS s", "count(*) AS n"]), checkpoint, durability=durability)
    add(stream, 1)
    refused = attempt(TUMBLING.of(stream, ["sum(v) AS s"]), checkpoint, durability=durability)
    assert f"spark.slash.durability={durability} keeps its state only in memory" in str(refused.error)
    continued = attempt(TUMBLING.of(stream, ["sum(v) AS s", "count(*) AS n"]), checkpoint, durability=durability)
    assert durability == "replica" or continued.error is None


@pytest.mark.nightly
def test_each_of_several_operators_is_evolved(stream: Stream) -> None:
    """Windows of windows: the inner ones gain an aggregate and the outer ones drop one."""

    def of(inner: str, *outer: str) -> DataFrame:
        windows = stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"), F.expr(inner))
        wider = windows.groupBy(F.window("window", "20 seconds"))
        return wider.agg(F.sum("s").alias("s"), *[F.expr(one) for one in outer])

    checkpoint, spark_checkpoint = stream.folder / "checkpoint", stream.folder / "spark"
    hi, some = "max(v) AS hi", since(2, "max(v) AS hi")
    add(stream, 2)
    attempt(of("count(v) AS hi", "count(*) AS n", "max(s) AS most"), checkpoint)
    attempt(of(some, "count(*) AS n"), spark_checkpoint, "off")
    add(stream, 4)
    found = attempt(of(hi, "count(*) AS n"), checkpoint, plan_change="aggregates")
    expected = attempt(of(some, "count(*) AS n"), spark_checkpoint, "off")
    assert found.error is None
    assert found.batches == expected.batches
    assert any(rows for _, rows in found.batches)
