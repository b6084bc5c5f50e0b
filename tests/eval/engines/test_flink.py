"""Flink against Spark's batch query over the same rows; its SQL, which needs no Flink."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eval import oracle
from eval.engines import ENGINES, CannotRunError, Runner, flink
from eval.engines.flink import FlinkRunner, final_rows
from eval.engines.flink_environment import ENVIRONMENT
from eval.engines.flink_sql import columns, job_of, select, views
from eval.steady import Steady
from eval.workloads import Nexmark, Workload
from eval.workloads.nexmark import SELECTS
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


@pytest.mark.nightly
@pytest.mark.parametrize("q", SELECTS)
def test_what_nexmarks_changes_come_to_are_the_oracles_rows(
    runner: Runner, spark: SparkSession, tmp_path: Path, q: int
) -> None:
    workload = Nexmark(rows=30_000, batches=4, span_s=60.0, q=q)
    folder = workload.generate(tmp_path)
    oracle.write(spark, workload, folder)
    same, rows = runner.check(workload, folder)
    assert same
    assert rows > 0


def test_changes_come_to_rows(tmp_path: Path) -> None:
    changes = [("c", 1, "a"), ("d", 1, "a"), ("c", 1, "b"), ("c", 2, "x"), ("c", 2, "y"), ("c", 3, "z"), ("d", 3, "z")]
    lines = [
        json.dumps(
            {"before": None, "after": None, ("after" if op == "c" else "before"): {"id": id_, "at": at}, "op": op}
        )
        for op, id_, at in changes
    ]
    for name, part in (("part-0-0-10", lines[4:]), ("part-0-0-9", lines[:4])):
        (tmp_path / name).write_text("\n".join(part))
    schema = pa.schema([("key", pa.int64()), ("value", pa.string())])
    found = final_rows(tmp_path, schema, ("key",))
    assert found.to_pylist() == [{"key": 1, "value": "b"}, {"key": 2, "value": "y"}]


def test_nexmark_reads_no_more_columns_than_its_query_has(tmp_path: Path) -> None:
    job = job_of(
        Nexmark(rows=2_000, batches=2, span_s=2.0, q=5),
        Nexmark(rows=2_000, batches=2, span_s=2.0, q=5).generate(tmp_path),
    )
    assert set(job.columns) == {"event_type", "date_time", "auction"}
    assert (
        job.views[2]
        == "CREATE TEMPORARY VIEW bid AS SELECT auction, date_time, row_time FROM events WHERE event_type = 2"
    )
    with pytest.raises(CannotRunError, match="q16 is not written in Flink SQL"):
        job_of(Nexmark(q=16), tmp_path)


def test_a_run_has_figures(runner: Runner, tmp_path: Path) -> None:
    figures = runner.run(tiny.TUMBLING, tiny.TUMBLING.generate(tmp_path))
    assert figures["rows_per_second"] == pytest.approx(tiny.TUMBLING.rows / figures["seconds"])


# In the place of Flink's Python: each job of it takes two seconds, the first one from second 1000.
JOBS = """#!{python}
import json, os, sys
with os.fdopen(int(sys.argv[3]), "w") as answers:
    for number, order in enumerate(sys.stdin, 1):
        part = [1000.0 * number, 1000.0 * number + 2]
        print(json.dumps({{"seconds": 2.0, "part": part}}), file=answers, flush=True)
"""


def test_processor_time_counts_of_the_measured_job_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(JOBS.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(flink, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(flink, "class_path", list)
    workload, runner = replace(tiny.TUMBLING, batches=8), FlinkRunner(ENGINES["flink"].settings(1, {}))
    try:
        folder = workload.generate(tmp_path)
        once = runner.run(workload, folder)
        steady = runner.steady(workload, folder, Steady(seconds=8))
    finally:
        runner.close()
    assert (once["part"], once["seconds"], once["rows_per_second"]) == ([1000, 1002], 2, workload.rows / 2)
    # The second job has warmed the JVM, with one micro-batch; the third has as many as eight seconds are long.
    assert (steady["part"], steady["rows"]) == ([3000, 3002], workload.rows / 2)


def test_sliding_windows_hop_over_a_view_of_what_the_query_reads(tmp_path: Path) -> None:
    query = tiny.SLIDING.statement
    folder = tiny.SLIDING.generate(tmp_path)
    assert columns(query, folder) == {"ts": "TIMESTAMP(3)", "key": "BIGINT", "value": "BIGINT"}
    assert views(query, folder) == ["CREATE TEMPORARY VIEW input AS SELECT `ts`, `key`, `value` FROM events"]
    assert "HOP(TABLE input, DESCRIPTOR(`ts`), INTERVAL '5' SECOND, INTERVAL '10' SECOND)" in select(query)
    assert select(query).endswith("GROUP BY window_start, window_end, `key`")
