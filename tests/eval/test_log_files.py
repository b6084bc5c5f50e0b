"""What the bench of log files makes of figures; and one short run of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyslash
from eval.log_files import ENGINES, OURS, SPARKS, WARM_UP, measure, table
from eval.workloads import Aggregate


def test_the_ratio_is_of_neighbours() -> None:
    times = {SPARKS: [100.0, 200.0, 300.0], OURS: [50.0, 100.0, 300.0]}  # the machine got slower, and ours was not
    runs = [
        {"engine": engine, "logs": logs, "turn": turn, "ms": [ms, ms, 1e9]}
        for engine in ENGINES
        for logs, values in times.items()
        for turn, ms in enumerate(values)
    ]
    assert [line.split()[-5:] for line in table(runs).splitlines()[1:]] == [["200", "ms", "100", "ms", "0.50"]] * 2


@pytest.mark.nightly
def test_a_run_of_each_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    batches = WARM_UP + 1
    workload = Aggregate(rows=batches * 100, batches=batches, span_s=60.0, keys=10)
    pyslash.enable(spark)
    try:
        found = measure(spark, workload, workload.generate(tmp_path), rounds=1)
    finally:
        spark.conf.unset("spark.slash.mode")
        spark.conf.unset("spark.slash.logs")
        pyslash.disable()
    assert [(one["engine"], one["logs"], len(one["ms"])) for one in found] == [
        (engine, logs, 1) for engine in ENGINES for logs in (SPARKS, OURS)
    ]
