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
from tests.support.nightly import some_at_night

Measured = tuple[Workload, Path]


LONG = (*tiny.OTHERS, tiny.READ_ONLY)


@pytest.fixture(scope="module", params=some_at_night(tiny.ALL, LONG), ids=tiny.name)
def measured(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """A workload, its rows, and what Spark makes of them."""
    workload: Workload = request.param
    folder = workload.generate(tmp_path_factory.mktemp("workload"))
    oracle.write(spark, workload, folder)
    return workload, folder


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


def test_its_rows_are_the_oracles(runner: Runner, measured: Measured) -> None:
    same, rows = runner.check(*measured)
    assert same
    assert rows > 0


def test_a_run_has_figures(runner: Runner, tmp_path: Path) -> None:
    figures = runner.run(tiny.SLIDING, tiny.SLIDING.generate(tmp_path))
    assert figures["rows"] == tiny.SLIDING.rows
    assert figures["rows_per_second"] == pytest.approx(figures["rows"] / figures["seconds"])
