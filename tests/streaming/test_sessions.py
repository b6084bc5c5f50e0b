"""Session windows against plain Spark over the same micro-batches: late rows, modes, ways in and out, restarts."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.driver.start import hook
from tests.support.example import run_example
from tests.support.ran import Query, ran
from tests.support.stream import Stream, in_order, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64()), ("gap", pa.int64())])
CALLS = {"n": "count(*)", "s": "sum(v)", "m": "max(v)", "a": "avg(v)", "c": "count(v)"}


def add(stream: Stream, generator: random.Random, at: float, rows: int = 250, keys: int = 40) -> None:
    """Rows around a time, out of order: some late, some without a time, a value or a gap."""

    def row() -> tuple[object, ...]:
        late = generator.random() < 0.15
        time = at + (generator.uniform(-60, -15) if late else generator.uniform(-12, 12))
        return (
            None if generator.random() < 0.03 else seconds(round(time, generator.choice((0, 3)))),
            generator.choice((None, *range(keys))),
            generator.choice((None, *range(100))),
            generator.choice((None, -1, 0, *range(1, 9))),
        )

    table = [row() for _ in range(rows)]
    stream.add(pa.table([[row[i] for row in table] for i in range(4)], SCHEMA))


def made(spark: SparkSession, folder: Path) -> Stream:
    """Micro-batches of which each extends sessions of those before."""
    stream = Stream(spark, folder, SCHEMA, delay_seconds=10)
    generator = random.Random(7)
    for batch in range(5):
        add(stream, generator, 1000 + 12 * batch)
    return stream


def grouped(rows: DataFrame, gap: Any) -> DataFrame:
    session = F.session_window("ts", gap)
    return rows.groupBy(session, "k").agg(*(F.expr(call).alias(name) for name, call in CALLS.items()))


QUERIES: dict[str, Query] = {
    "fixed": lambda rows: grouped(rows, "5 seconds"),
    "dynamic": lambda rows: grouped(rows, F.expr("concat(gap, ' seconds')")),
    "by time": lambda rows: grouped(rows, F.expr("CASE WHEN minute(ts) = 17 THEN '2 seconds' ELSE '6 seconds' END")),
}
PATHS = {
    "driver": {"merge.driverBytes": "1g"},
    "homes": {"merge.driverBytes": "0", "ingest": "files", "ingest.filesMinBytes": "0"},
    "tcp": {"merge.driverBytes": "0", "transport": "tcp", "ingest": "rows", "durability": "off"},
    "rewritten": {"merge.driverBytes": "0", "session.rewriteBytes": "1"},
    "no room": {"merge.driverBytes": "0", "home.size": "1", "session.rewriteBytes": "1"},
}


@pytest.fixture(scope="module")
def sparks(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """Plain Spark's micro-batches, by gap and output mode."""
    found = {}
    for gap, output in (*product(("fixed", "dynamic"), ("append", "complete")), ("by time", "append")):
        stream = made(spark, tmp_path_factory.mktemp(f"{gap}-{output}"))
        found[gap, output] = ran(stream.read(), stream.folder, QUERIES[gap], output, "off").batches
        assert sum(map(len, found[gap, output])) > 80
    return found


@pytest.mark.parametrize(
    ("gap", "output", "path"),
    [
        ("fixed", "append", "driver"),
        ("fixed", "append", "homes"),
        ("fixed", "append", "rewritten"),
        ("fixed", "complete", "homes"),
        ("dynamic", "append", "homes"),
        ("by time", "append", "homes"),
        ("dynamic", "append", "tcp"),
        ("dynamic", "complete", "rewritten"),
        ("dynamic", "append", "no room"),
    ],
)
def test_micro_batches_are_sparks(
    spark: SparkSession, tmp_path: Path, sparks: dict[tuple[str, str], Any], gap: str, output: str, path: str
) -> None:
    stream = made(spark, tmp_path)
    found = ran(stream.read(), stream.folder, QUERIES[gap], output, "require", **PATHS[path])
    assert found.batches == sparks[gap, output]
    if path == "homes":
        assert {epoch["merged_by"] for epoch in found.progress} == {"2 homes"}
        # Nothing but the rows' own parts of sessions crosses, and is read where sessions are kept.
        assert [epoch["ingest"] for epoch in found.progress if epoch["rows"]] == (
            ["files" if gap == "fixed" else "rows"] * 5
        )


@pytest.mark.parametrize("durability", [pytest.param("off", marks=pytest.mark.nightly), "checkpoint"])
def test_a_query_that_starts_again_goes_on_with_its_sessions(
    spark: SparkSession, tmp_path: Path, durability: str
) -> None:
    stream = made(spark, tmp_path)
    generator = random.Random(3)
    conf = {"merge.driverBytes": "0", "durability": durability}
    for start in range(2):
        # The second time what was kept is read again, and written anew.
        rewritten = {"session.rewriteBytes": "1"} if start else {}
        expected = ran(stream.read(), stream.folder, QUERIES["fixed"], "append", "off")
        found = ran(stream.read(), stream.folder, QUERIES["fixed"], "append", "require", **conf, **rewritten)
        assert found.batches == expected.batches
        assert any(found.batches)
        hook._sweep()
        add(stream, generator, 1052)
        add(stream, generator, 1062)


def test_sparks_figures_of_the_operator(spark: SparkSession, tmp_path: Path) -> None:
    stream = made(spark, tmp_path)
    query = QUERIES["fixed"](stream.read())
    figures = {}
    for mode in ("off", "require"):
        pyslash.enable(spark)
        spark.conf.set("spark.slash.mode", mode)
        try:
            running = query.writeStream.foreachBatch(lambda rows, _: rows.collect()).trigger(availableNow=True).start()
            running.awaitTermination()
        finally:
            spark.conf.unset("spark.slash.mode")
            pyslash.disable()
        figures[mode] = [state for one in running.recentProgress for state in one["stateOperators"]]
    for ours, theirs in zip(figures["require"], figures["off"], strict=True):
        assert ours["operatorName"] == theirs["operatorName"] == "sessionWindowStateStoreSaveExec"
        # Spark counts rows of equal keys and times once.
        assert ours["numRowsDroppedByWatermark"] >= theirs["numRowsDroppedByWatermark"]
        assert ours["numRowsTotal"] >= theirs["numRowsTotal"]
    assert sum(ours["numRowsDroppedByWatermark"] for ours in figures["require"]) > 50


def test_a_filter_on_the_session_is_one_on_rows(spark: SparkSession, tmp_path: Path) -> None:
    stream = made(spark, tmp_path)

    def query(rows: DataFrame) -> DataFrame:
        return QUERIES["fixed"](rows).where("second(session_window.end) % 2 = 0 AND n > 1 AND k IS NOT NULL")

    expected = ran(stream.read(), stream.folder, query, "append", "off")
    assert any(expected.batches)
    assert ran(stream.read(), stream.folder, query, "append", "require").batches == expected.batches


def test_the_example(spark: SparkSession, tmp_path: Path) -> None:
    clicks = tmp_path / "clicks"
    clicks.mkdir()
    times = [(0, 7), (20, 7), (30, 8), (45, 7), (80, 7), (200, 8), (400, 9)]  # minutes, user
    schema = pa.schema(
        [("clicked_at", pa.timestamp("us", "UTC")), ("user", pa.int64()), ("page", pa.string()), ("paid", pa.int64())]
    )
    for number in range(0, len(times), 2):
        rows = [(seconds(60 * at), user, f"page {at}", at * 100) for at, user in times[number : number + 2]]
        path = clicks / f"{number}.parquet"
        pq.write_table(pa.table([[row[i] for row in rows] for i in range(4)], schema), path)
        in_order(path, number)
    output = run_example("sessions.py", clicks, tmp_path)
    visits = spark.read.parquet(str(output)).orderBy("visit").collect()
    found = [(visit.user, visit.clicks, visit.paid, visit.page_of_the_dearest) for visit in visits]
    assert found == [
        (7, 3, 6500, "page 45"),
        (8, 1, 3000, "page 30"),
        (7, 1, 8000, "page 80"),
        (8, 1, 20_000, "page 200"),
    ]


def test_a_gap_by_the_current_time_is_not_one_gap_for_all(spark: SparkSession, tmp_path: Path) -> None:
    """In 1970, which is the time of a plan that has not started, it is another one than now."""
    gap = F.expr("CASE WHEN unix_seconds(current_timestamp()) < 1000 THEN '2 seconds' ELSE '6 seconds' END")
    stream = made(spark, tmp_path)
    expected, found = (
        ran(stream.read(), stream.folder, lambda rows: grouped(rows, gap), "append", mode).batches
        for mode in ("off", "require")
    )
    assert any(expected)
    assert found == expected
