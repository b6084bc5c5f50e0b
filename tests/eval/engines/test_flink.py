"""Flink against Spark's batch query over the same rows; its SQL, which needs no Flink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eval import oracle
from eval.engines import ENGINES, Runner
from eval.engines.flink_environment import ENVIRONMENT
from eval.engines.flink_sql import select, tables
from eval.workloads import Workload
from tests.eval import tiny


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """Flink, up."""
    if not ENVIRONMENT.exists():
        pytest.skip("Flink is not installed in build/eval: `python -m eval run --engines flink` does that")
    engine = ENGINES["flink"]
    opened = engine.open(engine.settings(1, {}))
    yield opened
    opened.close()


@pytest.mark.parametrize("workload", tiny.ALL, ids=tiny.name)
def test_its_rows_are_the_oracles(runner: Runner, spark: SparkSession, tmp_path: Path, workload: Workload) -> None:
    folder = workload.generate(tmp_path)
    oracle.write(spark, workload, folder)
    same, rows = runner.check(workload, folder)
    assert same
    assert rows > 0


def test_a_run_has_figures(runner: Runner, tmp_path: Path) -> None:
    figures = runner.run(tiny.TUMBLING, tiny.TUMBLING.generate(tmp_path))
    assert figures["rows_per_second"] == pytest.approx(tiny.TUMBLING.rows / figures["seconds"])


def test_sliding_windows_hop_over_a_stream_with_the_workloads_watermark(tmp_path: Path) -> None:
    query = tiny.SLIDING.statement
    made = tables(query, tiny.SLIDING.generate(tmp_path))
    assert "WATERMARK FOR `ts` AS `ts` - INTERVAL '2' SECOND" in made[0]
    assert "`ts` TIMESTAMP(6), `key` BIGINT, `value` BIGINT" in made[0]
    assert "HOP(TABLE input, DESCRIPTOR(`ts`), INTERVAL '5' SECOND, INTERVAL '10' SECOND)" in select(query)
    assert select(query).endswith("GROUP BY window_start, window_end, `key`")
