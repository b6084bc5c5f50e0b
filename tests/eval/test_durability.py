"""What the durability bench makes of figures; and one short run of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pyslash
from eval.durability import KEPT, LOST, PARTS, bar, measure, table
from eval.workloads import Aggregate


def runs(kept: list[float], lost: list[float]) -> list[dict[str, Any]]:
    parts = dict.fromkeys(PARTS, 1.0)
    rates = {KEPT: kept, LOST: lost}
    return [{"durability": name, "rows_per_second": rate, **parts} for name in rates for rate in rates[name]]


@pytest.mark.parametrize(
    ("kept", "figure", "met"), [([75.0, 80, 1], "25.0%", True), ([74.0] * 3, "26.0%", False), ([110.0], "-10.0%", True)]
)
def test_the_cost_is_that_of_medians(kept: list[float], figure: str, met: bool) -> None:
    found = bar(runs(kept, [100.0, 100, 1000]))
    assert (found.figure, found.met) == (figure, met)


@pytest.mark.nightly
def test_a_run_of_each_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    workload = Aggregate(rows=20_000, batches=2, span_s=60.0, keys=10)
    pyslash.enable(spark)
    spark.conf.set("spark.slash.mode", "require")
    try:
        found = measure(spark, workload, workload.generate(tmp_path), repeats=1)
    finally:
        spark.conf.unset("spark.slash.mode")
        spark.conf.unset("spark.slash.durability")
        pyslash.disable()
    assert [(one["durability"], one["checkpoint_bytes"] > 0) for one in found] == [(LOST, False), (KEPT, True)]
    assert [line.split()[0] for line in table(found).splitlines()] == ["durability", LOST, KEPT]
