"""Flink against Spark's batch query over the same rows; its SQL, which needs no Flink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eval import oracle
from eval.engines import ENGINES, Runner
from eval.engines.flink_environment import ENVIRONMENT
from eval.engines.flink_sql import columns, select, views
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


# More files than are read at the same time: in a wrong order, rows would come too late and be dropped.
MANY_FILES = replace(tiny.SLIDING, rows=16_000, batches=16)


@pytest.mark.parametrize("workload", [*tiny.ALL, MANY_FILES], ids=tiny.name)
def test_its_rows_are_the_oracles(runner: Runner, spark: SparkSession, tmp_path: Path, workload: Workload) -> None:
    folder = workload.generate(tmp_path)
    oracle.write(spark, workload, folder)
    same, rows = runner.check(workload, folder)
    assert same
    assert rows > 0


def test_a_run_has_figures(runner: Runner, tmp_path: Path) -> None:
    figures = runner.run(tiny.TUMBLING, tiny.TUMBLING.generate(tmp_path))
    assert figures["rows_per_second"] == pytest.approx(tiny.TUMBLING.rows / figures["seconds"])


def test_sliding_windows_hop_over_a_view_of_what_the_query_reads(tmp_path: Path) -> None:
    query = tiny.SLIDING.statement
    folder = tiny.SLIDING.generate(tmp_path)
    assert columns(query, folder) == {"ts": "TIMESTAMP(3)", "key": "BIGINT", "value": "BIGINT"}
    assert views(query, folder) == ["CREATE TEMPORARY VIEW input AS SELECT `ts`, `key`, `value` FROM events"]
    assert "HOP(TABLE input, DESCRIPTOR(`ts`), INTERVAL '5' SECOND, INTERVAL '10' SECOND)" in select(query)
    assert select(query).endswith("GROUP BY window_start, window_end, `key`")
