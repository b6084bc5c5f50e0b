"""JSON from files into windows: the rows, the watermarks and the figures of each micro-batch are plain Spark's."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.spark.session import changed
from tests.support.ran import ran
from tests.support.record_stream import (
    SCHEMA,
    Run,
    both,
    by_a_time_of_its_own,
    by_fields,
    compare,
    events,
    pages_of,
    write,
)
from tests.support.stream import in_order


@pytest.mark.parametrize("query", [by_fields, by_a_time_of_its_own])
def test_json_from_text_files(spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame]) -> None:
    """A file a micro-batch."""
    write(tmp_path / "in", "txt", events)
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
    compare(query(lines.withColumn("partition", F.lit(0))), tmp_path)


def test_json_files(spark: SparkSession, tmp_path: Path) -> None:
    """The JSON source; its parser passes over records by the filters that Spark has pushed down to it."""
    write(tmp_path / "in", "txt", events)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    chosen = rows.where("kind in ('view', 'click') and value is not null").withWatermark("at", "5 seconds")
    grouped = chosen.groupBy(F.window("at", "4 seconds"), "key")
    compare(grouped.agg(F.count("*"), F.sum("value"), F.max("text"), F.sum("deep.number")), tmp_path)


def test_json_files_that_another_table_chooses(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for day in ("other", "wanted"):
        write(tmp_path / "in" / f"day={day}", "txt", events)
    rows = spark.readStream.schema(f"{SCHEMA}, day string").json(str(tmp_path / "in"))
    chosen = rows.where("day = (SELECT max(name) FROM VALUES ('wanted') AS of_table(name))")
    grouped = chosen.withWatermark("at", "5 seconds").groupBy(F.window("at", "4 seconds"), "key")
    plain, native = both(grouped.count(), tmp_path)
    native.check_rows(plain)


def test_json_that_is_looked_up_in_another_table(spark: SparkSession, tmp_path: Path) -> None:
    """By a key out of the JSON, the join has no generated code, and what is broadcast stands below no stage of it."""
    write(tmp_path / "in", "txt", events)
    lines = spark.readStream.format("text").load(str(tmp_path / "in"))
    rows = lines.select(F.from_json("value", SCHEMA).alias("of")).select("of.*")
    known = rows.where("key IN (SELECT concat('user-', id) FROM range(3, 100))")
    grouped = known.withWatermark("at", "5 seconds").groupBy(F.window("at", "4 seconds"), "key")
    plain, native = both(grouped.count(), tmp_path)
    native.check_rows(plain)


@pytest.mark.parametrize(
    ("name", "value"), [("spark.sql.files.ignoreCorruptFiles", "true"), ("spark.sql.legacy.timeParserPolicy", "LEGACY")]
)
def test_what_the_session_is_told_while_the_query_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Spark opens files by the session that the source was made in. The query has a copy, which is told nothing."""
    keep = Run._keep

    def keep_and_tell(run: Run, rows: DataFrame, number: int) -> None:
        keep(run, rows, number)
        spark.conf.set(name, value)

    monkeypatch.setattr(Run, "_keep", keep_and_tell)
    write(tmp_path / "in", "txt", events)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    grouped = rows.withWatermark("at", "5 seconds").groupBy(F.window("at", "4 seconds"), "key").agg(F.sum("value"))
    plain, native = Run(grouped, tmp_path / "plain", "off"), Run(grouped, tmp_path / "native", "require")
    pyslash.enable(spark)
    try:
        for run in (plain, native):
            with changed(spark, {name: spark.conf.get(name), "spark.slash.mode": "auto"}):
                run.go_on()
    finally:
        pyslash.disable()
    native.check_rows(plain)


@pytest.mark.parametrize("width", ["variable", "fixed"])
def test_pages_of_json_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    """Columns go to the accumulator a page at a time, in their order, but for pages with records left to Spark."""
    in_pages = pages_of(monkeypatch)
    write(tmp_path / "in", "txt", events, plain=6000)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    grouped = rows.withWatermark("at", "5 seconds").groupBy(
        F.window("at", "4 seconds"), "key" if width == "variable" else "value"
    )
    texts = (F.first("kind"), F.last("kind"), F.max("text")) if width == "variable" else ()
    compare(grouped.agg(F.count("*"), F.sum("value"), *texts), tmp_path)
    assert len(in_pages) == 3
    assert all(1000 < count < 7000 for count in in_pages)


USER = "user struct<id: string, name: string, home: struct<town: string, zip: string>, wide: decimal(30, 2)>"
USERS = f"at timestamp, {USER}, value int"
WATERMARK = "5 seconds"


def write_users(folder: Path, seed: int) -> None:
    """Three files whose records have their members in any order; where a name is escaped, only Spark reads them."""
    draw = random.Random(seed)
    folder.mkdir(parents=True)

    def an_object(**members: object) -> dict[str, object]:
        names = draw.sample([*members], len(members))
        return {name: members[name] for name in names if members[name] is not None or draw.random() < 0.5}

    for batch in range(3):
        lines = []
        for _ in range(200):
            home = draw.choice([None, an_object(town="Ulm", zip=draw.choice(["1", None]))])
            user = an_object(id=f"u{draw.randrange(4)}", name=draw.choice(["Ann", "Bo", None]), home=home, wide=None)
            at = f"2020-01-01T00:00:{10 * batch + 10 + draw.randrange(10)}Z"
            line = json.dumps(an_object(at=at, user=user, value=draw.randrange(100)))
            lines.append(line.replace('"user"', draw.choice(['"user"', '"user"', r'"\u0075ser"'])))
        (folder / f"{batch}.json").write_text("\n".join(lines))
        in_order(folder / f"{batch}.json", batch)


def files_of_users(spark: SparkSession, folder: Path) -> DataFrame:
    """Their rows by the JSON source."""
    rows = spark.readStream.schema(USERS).option("maxFilesPerTrigger", 1).json(str(folder))
    return rows.withWatermark("at", WATERMARK)


def parsed_users(spark: SparkSession, folder: Path) -> DataFrame:
    """The same by from_json."""
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    return lines.select(F.from_json("value", USERS).alias("event")).select("event.*").withWatermark("at", WATERMARK)


def whole_records(spark: SparkSession, folder: Path) -> DataFrame:
    """All that a from_json gives as the struct."""
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    rows = lines.select(
        F.from_json("value", USER).alias("user"), F.from_json("value", "at timestamp, value int").alias("event")
    )
    return rows.select("user", "event.*").withWatermark("at", WATERMARK)


def grouped(rows: DataFrame, _: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("at", "10 seconds"), "user").agg(F.count("*"), F.sum("value"))


def in_a_set(rows: DataFrame, _: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("at", "10 seconds")).agg(F.size(F.collect_set("user")), F.count("user"))


def deduplicated(rows: DataFrame, _: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["user"]).select("user")


def joined(rows: DataFrame, others: DataFrame) -> DataFrame:
    right = others.select(F.col("user").alias("other"), F.col("at").alias("then"), F.col("value").alias("other_value"))
    near = F.expr(
        "user = other and then between at - interval 2 seconds and at + interval 1 second and value = other_value"
    )
    return rows.join(right, near).select("user", "other", "at", "then")


@pytest.mark.parametrize("query", [grouped, in_a_set, deduplicated, joined])
@pytest.mark.parametrize("source", [files_of_users, parsed_users, whole_records])
def test_structs_as_keys(
    spark: SparkSession,
    tmp_path: Path,
    source: Callable[[SparkSession, Path], DataFrame],
    query: Callable[[DataFrame, DataFrame], DataFrame],
) -> None:
    """Structs are told apart by their values, whatever the order of members and whoever has read them."""
    for seed, side in enumerate(("left", "right")):
        write_users(tmp_path / side, seed)
    others = source(spark, tmp_path / "right")
    expected, found = (
        ran(source(spark, tmp_path / "left"), tmp_path, lambda rows: query(rows, others), "append", mode)
        for mode in ("off", "require")
    )
    assert sum(map(len, expected.batches)) > 1
    assert found.batches == expected.batches
    assert sum(one["records_by_spark"] for one in found.progress) > 10
