"""DuckDB and Polars, each against Spark's batch query over the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eval import oracle
from eval.engines import BATCH, ENGINES, Runner
from eval.workloads import Workload
from tests.eval import tiny


@pytest.fixture(params=["duckdb", "polars"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """The engine, up."""
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: pip install --group eval (make eval does)")
    engine = ENGINES[request.param]
    assert engine.kind == BATCH
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
    figures = runner.run(tiny.SLIDING, tiny.SLIDING.generate(tmp_path))
    assert figures["rows"] == tiny.SLIDING.rows
    assert figures["rows_per_second"] == pytest.approx(figures["rows"] / figures["seconds"])
