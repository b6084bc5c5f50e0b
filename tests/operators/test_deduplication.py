"""Deduplication in Spark's physical plan: what is covered, as which native plan, and why the rest is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.conf import Conf
from pyslash.driver.coverage_check import operators_of
from pyslash.operators.deduplication import DeduplicationPlan
from pyslash.operators.within_watermark.plan import WithinWatermarkPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

ALL_TIME = "window 576460752303423488 576460752303423488 0"


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    schema = "ts timestamp, k bigint, x double, t string, s struct<a: int>"
    return spark.readStream.schema(schema).parquet(str(tmp_path_factory.mktemp("rows")))


def operator(df: DataFrame, mode: OutputMode = OutputMode.APPEND) -> DeduplicationPlan:
    found = operators_of(df, mode, Conf.read(df.sparkSession.conf.get))[0][0]
    assert isinstance(found, DeduplicationPlan)
    return found


def lines(df: DataFrame) -> list[str]:
    return operator(df).text.splitlines()


def test_the_first_row_of_a_key(rows: DataFrame) -> None:
    assert lines(rows.select("k", "t").dropDuplicates(["k"])) == [
        "pyslash-plan 1",
        ALL_TIME,
        "deduplicate",
        "column int64 1",
        "column string 1",
        "key 1",
        "aggregate first 2 0",
    ]


def test_all_columns_are_keys(rows: DataFrame) -> None:
    found = lines(rows.select("k", "t").distinct())
    assert found[3:] == ["column int64 1", "column string 1", "key 1", "key 2", "aggregate count - 0"]


def test_the_event_time_among_the_keys_has_panes(rows: DataFrame) -> None:
    timed = rows.select("k", "ts").withWatermark("ts", "1 hour")
    assert lines(timed.dropDuplicates(["k", "ts"]))[1] == "window 60000000 60000000 0"
    assert lines(timed.dropDuplicates(["k"]))[1] == ALL_TIME


def test_floating_point_keys_keep_the_rows_own_zero(rows: DataFrame) -> None:
    if not rows.sparkSession.version.startswith("4.3."):
        with pytest.raises(Uncovered, match=r"zeros and NaNs Spark before 4\.3 tells apart"):
            operator(rows.select("x").dropDuplicates())
        return
    found = lines(rows.select("x").dropDuplicates())
    assert found[3:] == ["column float64 1", "key 1", "aggregate first 1 0"]


def test_groups_are_emitted_once_in_either_mode(rows: DataFrame) -> None:
    for mode in (OutputMode.APPEND, OutputMode.UPDATE):
        emission = operator(rows.select("k").dropDuplicates(), mode).emission
        assert emission.new_only
        assert emission.windows(held={0}, changed=set(), emitted_us=0, watermark_us=0, pane=0) == []
        assert emission.windows(held={0}, changed={0}, emitted_us=0, watermark_us=0, pane=0) == [0]


def test_within_the_watermark_the_state_has_expiries(rows: DataFrame) -> None:
    timed = rows.select("k", "ts", "t").withWatermark("ts", "90 seconds")
    found = operator(timed.dropDuplicatesWithinWatermark(["k"]))
    assert isinstance(found, WithinWatermarkPlan)
    assert found.candidates is not None
    assert found.delay_us == 90_000_000
    *head, first, second = found.candidates.text.splitlines()
    assert head[:3] == ["pyslash-plan 1", ALL_TIME, "deduplicate"]
    assert [first, second] == ["aggregate first 2 0", "aggregate first 3 0"]
    assert found.text.splitlines() == [
        "pyslash-plan 1",
        "window 60000000 60000000 0",
        "deduplicate",
        *head[3:-1],
        "column int64 0",
        "key 1",
        "aggregate last 2 0",
        "aggregate last 3 0",
        "aggregate max 4 0",
    ]
    assert found.columns_of_candidates == [0, 1, 2]
    assert found.time_at == 1


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (lambda rows: rows.select(F.array("x")).dropDuplicates(), "the type array<double> of the key"),
        (
            lambda rows: (
                rows.select("ts", "k")
                .withWatermark("ts", "1 minute")
                .select(F.window("ts", "1 minute").alias("w"), "k")
                .dropDuplicatesWithinWatermark(["k"])
            ),
            "event time is the time window w",
        ),
    ],
)
def test_what_is_left_to_spark(rows: DataFrame, query: Callable[[DataFrame], DataFrame], reason: str) -> None:
    with pytest.raises(Uncovered, match=reason):
        operator(query(rows), OutputMode.APPEND)


def test_explain_writes_a_long_delay_out(rows: DataFrame) -> None:
    timed = rows.select("k", "ts").withWatermark("ts", "14 days")
    told = dict(operator(timed.dropDuplicatesWithinWatermark(["k"])).explain_lines)
    assert told["kept"].startswith("for 1209600 s after")
