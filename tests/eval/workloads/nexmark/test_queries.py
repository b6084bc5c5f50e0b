"""NEXMark's queries, small: on pyslash the rows of plain Spark, micro-batch by micro-batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyslash
from eval.workloads import Nexmark
from eval.workloads.nexmark import LEFT_OUT, QUERIES
from eval.workloads.nexmark.queries import Events
from tests.support.nightly import some_at_night
from tests.support.ran import ran

STATEFUL = [q for q, described in QUERIES.items() if described.has_state]
PLAIN = [q for q in QUERIES if q not in STATEFUL]
SIMILAR = (3, 8, 15)  # their operators are those of 20, 7 and 16
JOINED = 13  # of those without state, the only one that is more than a projection and a filter


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the events, which all queries share."""
    return tmp_path_factory.mktemp("nexmark")


@pytest.mark.parametrize("q", some_at_night(STATEFUL, SIMILAR))
def test_pyslash_gives_sparks_rows(spark: SparkSession, tmp_path: Path, cache: Path, q: int) -> None:
    workload = Nexmark(rows=6_000, batches=3, span_s=45.0, q=q, group=100)
    folder = workload.generate(cache)
    found = {
        mode: ran(
            workload.stream(spark, folder),
            tmp_path,
            lambda rows: workload.query(spark, rows, folder),
            workload.output_mode,
            mode,
        )
        for mode in ("off", "require")
    }
    assert found["require"].batches == found["off"].batches
    assert sum(map(len, found["off"].batches)) > 0
    assert len(found["require"].progress) >= workload.batches
    assert not found["off"].progress


@pytest.mark.parametrize("q", some_at_night(PLAIN, {*PLAIN} - {JOINED}))
def test_a_query_without_state_is_sparks(spark: SparkSession, cache: Path, q: int) -> None:
    workload = Nexmark(rows=6_000, batches=3, span_s=45.0, q=q, group=100)
    folder = workload.generate(cache)
    text = pyslash.explain(workload.query(spark, workload.stream(spark, folder), folder))
    assert "it has no stateful operator" in text
    rows = workload.query(spark, spark.read.parquet(str(folder / "rows")), folder)
    assert rows.limit(1).count() == 1


def test_sql_that_was_changed_says_what_was_published(spark: SparkSession, cache: Path) -> None:
    """Rewritten expressions, on rows whose results are known."""
    url = "https://www.nexmark.com/abc/def/ghi/item.htm?query=1"
    columns = (
        "2 AS event_type, 7L AS auction, 8L AS bidder, 'cabcc' AS extra, TIMESTAMP '2024-01-01 19:30:00' AS date_time"
    )

    def results(q: int, more: str) -> list[dict[str, object]]:
        rows = spark.sql(f"SELECT {columns}, {more}")
        return [row.asDict() for row in QUERIES[q].function(Events(spark, rows, cache)).collect()]

    bid = f"2000000L AS price, 'channel-1' AS channel, '{url}' AS url"
    assert [row["dir2"] for row in results(22, bid)] == ["def"]
    assert results(21, bid) == []
    assert [row["channel_id"] for row in results(21, bid.replace("query=1", "query=1&channel_id=5"))] == ["5"]
    assert [row["channel_id"] for row in results(21, bid.replace("channel-1", "Apple"))] == ["0"]
    (row,) = results(14, bid)
    assert (str(row["price"]), row["bid_time_type"], row["c_counts"]) == ("1816000.000", "otherTime", 3)


def test_what_is_left_out_is_said_with_its_reason() -> None:
    assert set(QUERIES) | set(LEFT_OUT) == set(range(24))
    assert not set(QUERIES) & set(LEFT_OUT)
