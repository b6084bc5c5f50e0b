"""Groups by the event time itself, and by windows that Spark makes, against plain Spark over the same micro-batches."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.conf import Conf
from pyslash.driver.coverage_check import operators_of
from pyslash.driver.operator_run import OperatorRun
from pyslash.driver.start import hook
from pyslash.migrate.spark_layout import check_movable
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.state.manifest import Manifest
from tests.faults.local import kill_agents
from tests.support.nightly import some_at_night
from tests.support.ran import Query, ran
from tests.support.stream import Stream, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
HOMES = {"merge.driverBytes": "0"}
CALLS = ("count(*) AS n", "sum(v) AS s", "max(ts) AS last")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Times by the second, about which the watermark moves by a little: within panes, and onto times that there are."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=10)
    generator = random.Random(5)
    for batch in range(5):
        add(made, generator, 1000 + 7 * batch)
    return made


def add(stream: Stream, generator: random.Random, at: float, rows: int = 150) -> None:
    """Rows around a time: some late, some without a time."""

    def time() -> float:
        is_late = generator.random() < 0.2
        return at + generator.randint(-40, -8) if is_late else at + generator.randint(-8, 6)

    values = {
        "ts": [None if generator.random() < 0.05 else seconds(time()) for _ in range(rows)],
        "k": [generator.choice((None, 1, 2, 3)) for _ in range(rows)],
        "v": [generator.choice((None, *range(50))) for _ in range(rows)],
    }
    stream.add(pa.table(values, SCHEMA))


def with_sizes(rows: DataFrame) -> DataFrame:
    """Joined with a static table that is computed of long windows."""
    history = rows.sparkSession.range(90).selectExpr("id % 3 + 1 AS k", "timestamp_seconds(1000 + id) AS t")
    counts = history.groupBy("k", F.window("t", "10 minutes", "5 seconds")).count()
    sizes = counts.groupBy("k").agg(F.sum("count").alias("size"))
    return rows.join(sizes, "k").groupBy(F.window("ts", "5 seconds"), "k").agg(F.max("size"), F.count("*"))


def windows(rows: DataFrame) -> DataFrame:
    """With the windows of each row, 120 of them, as a column."""
    return rows.withColumn("w", F.window("ts", "10 minutes", "5 seconds"))


def called(rows: DataFrame, *keys: object) -> DataFrame:
    return rows.groupBy(*keys).agg(*map(F.expr, CALLS))


def by_window(rows: DataFrame, size: str = "5 seconds") -> DataFrame:
    return rows.groupBy(F.window("ts", size), "k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def of_windows(rows: DataFrame, *keys: object) -> DataFrame:
    return by_window(rows).groupBy(*keys).agg(F.count("*"), F.sum("n"), F.max("s"))


def in_buffers(rows: DataFrame) -> DataFrame:
    return rows.groupBy("ts").agg(F.sort_array(F.collect_list("v")), F.percentile_approx("v", 0.5), F.count("v"))


def of_what_is_made_of_windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds", "5 seconds"), (F.col("v") % 2).alias("odd")).agg(
        F.max(F.col("window.end")), F.count("*")
    )


def of_the_current_time(rows: DataFrame, size: str) -> DataFrame:
    return called(rows.withColumn("now", F.current_timestamp()), F.window("now", size), "k")


def of_a_field(rows: DataFrame, *window: str) -> DataFrame:
    """The field of a struct, which Spark's optimizer reads in the window's own place."""
    made = rows.withColumn("row", F.from_json(F.to_json(F.struct("ts", "k")), "ts timestamp, k bigint"))
    return called(made, F.window("row.ts", *window), "row.k")


def of_two_windows(*keys: str) -> Query:
    """Of which groups have one, or both."""
    return lambda rows: (
        rows.withColumn("w", F.window("ts", "5 seconds"))
        .withColumn("long", F.window("ts", "1 minute"))
        .where("second(long.start) = 0")
        .groupBy(*keys)
        .agg(F.max("long"), F.min("long.end"), F.count("v"))
    )


def of_sessions_and_a_window(*columns: str) -> Query:
    windows = {"session": F.session_window("ts", "2 seconds"), "w": F.window("ts", "5 seconds")}

    def query(rows: DataFrame) -> DataFrame:
        for name in columns:
            rows = rows.withColumn(name, windows[name])
        return rows.groupBy("session", "w").agg(F.count("v"))

    return query


def of_a_computed_time(rows: DataFrame) -> DataFrame:
    return called(rows, F.session_window(F.timestamp_seconds(F.unix_seconds("ts") + F.col("k")), "2 seconds"), "k")


QUERIES: dict[str, tuple[Query, tuple[str, ...]]] = {
    "the event time": (lambda rows: called(rows, "ts", "k"), ("append", "update", "complete")),
    "the event time, in buffers": (in_buffers, ("append", "update")),
    "windows of the operator below": (lambda rows: of_windows(rows, "window"), ("append",)),
    "the time of windows below": (lambda rows: of_windows(rows, F.window_time("window").alias("t"), "k"), ("append",)),
    "rollup of a window": (
        lambda rows: rows.rollup(F.window("ts", "5 seconds"), "k").agg(*map(F.expr, CALLS)),
        ("append", "update", "complete"),
    ),
    "cube of a sliding window": (
        lambda rows: rows.cube(F.window("ts", "6 seconds", "3 seconds"), "k").agg(*map(F.expr, CALLS)),
        ("append", "update"),
    ),
    "rollup of a window, in buffers": (
        lambda rows: rows.rollup(F.window("ts", "5 seconds"), "k").agg(F.percentile_approx("v", 0.5)),
        ("complete",),
    ),
    "what is made of windows": (of_what_is_made_of_windows, ("append", "update")),
    "windows of a field": (lambda rows: of_a_field(rows, "5 seconds"), ("update", "complete")),
    "sliding windows of a field": (lambda rows: of_a_field(rows, "7 seconds", "3 seconds", "1 second"), ("update",)),
    "sessions of a computed time": (of_a_computed_time, ("complete",)),
    "another window of each row": (of_two_windows("w", "k"), ("append", "update")),
    "windows by another window": (
        lambda rows: of_two_windows("long", "w")(rows.withColumn("ts", F.expr("timestamp_seconds(v)"))),
        ("update",),
    ),
    "sessions by a window": (
        lambda rows: of_sessions_and_a_window("session", "w")(rows.withColumn("ts", F.expr("timestamp_seconds(v)"))),
        ("complete",),
    ),
    "windows of the current time": (lambda rows: of_the_current_time(rows, "36500 days"), ("update", "complete")),
}
CASES = [(name, mode) for name, (_, modes) in QUERIES.items() for mode in modes]
QUICK = {
    ("the event time", "update"),
    ("the event time, in buffers", "append"),
    ("windows of the operator below", "append"),
    ("cube of a sliding window", "append"),
    ("sliding windows of a field", "update"),
    ("sessions of a computed time", "complete"),
    ("another window of each row", "append"),
    ("windows by another window", "update"),
    ("sessions by a window", "complete"),
}


@pytest.mark.parametrize("case", some_at_night(CASES, {*CASES} - QUICK), ids=" - ".join)
def test_micro_batches_are_sparks(stream: Stream, case: tuple[str, str]) -> None:
    name, mode = case
    query, _ = QUERIES[name]
    expected = ran(stream.read(), stream.folder, query, mode, "off")
    found = ran(stream.read(), stream.folder, query, mode, "require", **HOMES)
    assert found.batches == expected.batches
    assert sum(map(len, found.batches)) > 0


@pytest.mark.parametrize(
    "conf",
    [
        {"ingest": "files"},
        pytest.param({"ingest": "rows", "transport": "tcp", **HOMES}, marks=pytest.mark.nightly),
        {"ingest": "rows", "strategy": "repartition", **HOMES},
    ],
    ids=str,
)
def test_micro_batches_are_sparks_on_every_path(stream: Stream, conf: dict[str, str]) -> None:
    query, _ = QUERIES["the event time"]
    expected = ran(stream.read(), stream.folder, query, "append", "off")
    found = ran(stream.read(), stream.folder, query, "append", "require", **conf)
    assert found.batches == expected.batches
    assert {epoch["ingest"] for epoch in found.progress} - {"none"} == {conf["ingest"]}


@pytest.mark.parametrize(
    "time", ["ts + INTERVAL 30 SECONDS", "timestamp_seconds(v)", "timestamp_seconds(v + k)", "to_timestamp(string(ts))"]
)
def test_a_window_of_a_computed_time_is_one(stream: Stream, time: str) -> None:
    windows = stream.read().groupBy(F.window(F.expr(time), "1 minute", "20 seconds")).count()
    assert "0:01:00 sliding by 0:00:20, panes of 0:00:20, of " in str(pyslash.explain(windows, "update"))


def test_a_query_that_starts_again_goes_on_with_open_groups(stream: Stream) -> None:
    """Of the event time and of totals, from files alone."""
    query, _ = QUERIES["rollup of a window"]
    generator = random.Random(6)
    for start in range(2):
        expected = ran(stream.read(), stream.folder, query, "update", "off")
        found = ran(stream.read(), stream.folder, query, "update", "require", durability="checkpoint", **HOMES)
        assert found.batches == expected.batches
        hook._sweep()
        for batch in range(2 if start == 0 else 0):
            add(stream, generator, 1035 + 7 * batch)
    assert any(row["window"] is None for batch in found.batches for row in batch)


def test_agents_that_die_before_groups_are_emitted_cost_no_row(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch is logged: it emits the same groups of a pane again, out of the files."""
    query, _ = QUERIES["the event time"]
    expected = ran(stream.read(), stream.folder, query, "append", "off")
    commit, struck = OperatorRun.commit, []

    def commit_without_agents(self: OperatorRun, manifest: Manifest) -> None:
        if manifest.epoch == 3 and not struck:
            struck.append(manifest.epoch)
            kill_agents(self.state.coordinator)
        commit(self, manifest)

    monkeypatch.setattr(OperatorRun, "commit", commit_without_agents)
    found = ran(stream.read(), stream.folder, query, "append", "require", durability="checkpoint", **HOMES)
    assert found.batches == expected.batches
    assert struck
    assert [epoch["replayed"] for epoch in found.progress if epoch["epoch"] == 3] == [True]


def test_the_window_of_the_current_time_is_that_of_the_micro_batch(stream: Stream) -> None:
    def query(rows: DataFrame) -> DataFrame:
        return of_the_current_time(rows, "1 microsecond")

    expected = ran(stream.read(), stream.folder, query, "update", "off")
    found = ran(stream.read(), stream.folder, query, "update", "require", **HOMES)
    windows = [{row["window"] for row in batch} for batch in found.batches if batch]
    assert [len(of_batch) for of_batch in windows] == [1] * len(stream.batches)
    assert len(set.union(*windows)) == len(stream.batches)
    counted = [
        [sorted((row["k"] or 0, row["n"], row["s"], row["last"]) for row in batch) for batch in one.batches if batch]
        for one in (found, expected)
    ]
    assert counted[0] == counted[1]


def sliding_where(condition: str) -> Query:
    return lambda rows: called(rows.withColumn("w", F.window("ts", "10 seconds", "5 seconds")).where(condition), "w")


@pytest.mark.parametrize("output", ["update", "complete"])
def test_a_filter_of_windows_is_that_of_the_micro_batch_that_has_the_row(
    spark: SparkSession, tmp_path: Path, output: str
) -> None:
    stream, least = Stream(spark, tmp_path, SCHEMA, delay_seconds=30), tmp_path / "least.json"
    query = sliding_where("unix_seconds(w.end) > (SELECT max(least) FROM least)")
    generator, counted = random.Random(7), 0
    for end in (1010, 990, 1020):
        least.write_text(f'{{"least": {end}}}')
        spark.read.schema("least bigint").json(str(least)).createOrReplaceTempView("least")
        add(stream, generator, 1000)
        expected = ran(stream.read(), tmp_path, query, output, "off").batches
        assert ran(stream.read(), tmp_path, query, output, "require", **HOMES).batches == expected
        counted += sum(map(len, expected))
    assert counted > 5


@pytest.mark.parametrize(
    ("condition", "is_of_batch"),
    [
        ("w.end > current_timestamp() - INTERVAL 30 SECONDS", True),
        ("date(w.end) < current_date()", True),
        ("w.end > localtimestamp()", True),
        ("second(w.end) > 60 * rand()", True),
        ("second(w.end) > 10", False),
        ("second(w.end) > 10 AND ts < current_timestamp()", False),
    ],
)
def test_windows_that_each_micro_batch_filters_are_keys(stream: Stream, condition: str, is_of_batch: bool) -> None:
    text = str(pyslash.explain(sliding_where(condition)(stream.read())))
    assert ("no window but the keys" in text, "0:00:10 sliding by 0:00:05" in text) == (is_of_batch, not is_of_batch)


def test_panes_are_dropped_as_the_watermark_moves(stream: Stream) -> None:
    for batch in range(4):
        add(stream, random.Random(batch), 2000 + 100 * batch)
    query, _ = QUERIES["the event time"]
    found = run(query(stream.read().where("ts IS NOT NULL")), stream.folder)
    held = [one["stateOperators"][0]["numRowsTotal"] for one in found.spark_progress if one["stateOperators"]]
    assert 0 < held[-1] < 150 < sum(rows.num_rows for rows in stream.batches) / 5


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            lambda rows: rows.rollup(F.window("ts", "5 seconds"), "k").agg(F.percentile_approx("v", 0.5)),
            "would gather buffers of Spark's own code, as no watermark ends its totals",
        ),
        (
            lambda rows: rows.rollup(F.window("ts", "10 minutes", "5 seconds"), "k").count(),
            "grouping sets, cube and rollup of windows of which a row has so many are not covered",
        ),
        (
            lambda rows: called(
                rows.withColumn("w", F.window("ts", "10 minutes", "5 seconds")).where("w.end < current_timestamp()"),
                "w",
            ),
            "under the aggregation reads the window, and changes with the micro-batch",
        ),
        (lambda rows: called(rows.withColumn("at", F.col("ts")), "ts", "at"), "more than one event time"),
        (
            lambda rows: of_sessions_and_a_window("w", "session")(
                rows.withColumn("ts", F.expr("timestamp_seconds(v)"))
            ),
            "it groups by more than one window",
        ),
    ],
    ids=["buffers of totals", "many windows", "many windows of the batch", "two times", "two windows"],
)
def test_what_is_left_to_spark_has_a_reason(stream: Stream, query: Query, reason: str) -> None:
    assert reason in pyslash.explain(query(stream.read()))


def test_explain_tells_what_is_grouped(stream: Stream) -> None:
    query, _ = QUERIES["rollup of a window"]
    text = pyslash.explain(query(stream.read()))
    assert "covered, in append mode" in text
    assert "no window but the keys, panes of 0:00:10" in text


def test_state_of_moments_is_not_moved(stream: Stream) -> None:
    query, _ = QUERIES["the event time"]
    (plan,), _ = operators_of(query(stream.read()), OutputMode.APPEND, Conf.read(lambda _, default: default))
    with pytest.raises(Uncovered, match="keeps panes of many moments, and some of those were emitted"):
        check_movable(plan.identity)


MANY = {
    "a bound": lambda rows: called(windows(rows), "w.start"),
    "no key": lambda rows: called(windows(rows), "k"),
    "all of it": lambda rows: called(windows(rows), "w"),
    "renamed": lambda rows: called(windows(rows).withColumnRenamed("w", "of"), "of", "k"),
    "rows of them": lambda rows: windows(rows).dropDuplicates(["w", "k"]).groupBy("k").count(),
    "a static table": with_sizes,
}
"""Queries with windows of which a row has more than are planned where the query groups by them."""


@pytest.mark.parametrize("query", MANY.values(), ids=MANY)
def test_many_windows_of_a_row_are_all_there(stream: Stream, query: Query) -> None:
    expected = ran(stream.read(), stream.folder, query, "update", "off")
    found = ran(stream.read(), stream.folder, query, "update", "auto", **HOMES)
    assert found.batches == expected.batches
    assert sum(map(len, found.batches)) > 0


@pytest.mark.parametrize(("name", "few"), [("all of it", True), ("renamed", True), ("no key", False)])
def test_windows_are_planned_two_a_row_where_a_query_groups_by_them(stream: Stream, name: str, few: bool) -> None:
    (plan,), _ = operators_of(MANY[name](stream.read()), OutputMode.UPDATE, Conf.read(lambda _, default: default))
    assert plan.windows_truncated == few
