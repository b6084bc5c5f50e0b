"""`pyslash explain job.py`: the job runs, its queries are told, and none of them starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQueryManager

import pyslash
from pyslash import cli

HEAD = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
import pyslash

spark = SparkSession.builder.getOrCreate()
pyslash.enable(spark)
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
"""
COVERED = """
counts = rows.groupBy("value").count()
query = counts.writeStream.outputMode("complete").queryName("counts").format("memory").start()
"""
NOT_COVERED = """
limited = rows.limit(5)
limited.writeStream.format("parquet").start("out", queryName="top", outputMode="append")
"""
STATELESS = """
rows.writeStream.toTable("copied", format="parquet", checkpointLocation="checkpoint")
"""

CLIENT = """
from pyspark.sql.connect.streaming.readwriter import DataStreamWriter
DataStreamWriter.__new__(DataStreamWriter).start()
"""

JOB = ("job.py", "--day", "monday")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder to work in. Jobs enable pyslash in this process."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    pyslash.disable()


def explain(folder: Path, job: str) -> int:
    """The command's exit status, over the session of this process."""
    (folder / "job.py").write_text(job)
    return cli.main(["explain", *JOB])


def test_each_query_is_told_and_none_starts(tmp_path: Path) -> None:
    """As a user starts it, with a Spark of its own."""
    rest = """
assert not query.isActive and query.lastProgress is None and query.awaitTermination(5)
pyslash.disable()
rows.writeStream.format("noop").foreachBatch(lambda batch, number: sys.exit("a micro-batch ran")).start()
spark.streams.awaitAnyTermination()
assert spark.streams.active == []
print("the job has read", sys.argv, spark.range(3).count(), spark.conf.get("spark.slash.arena.size"))
"""
    job = HEAD + COVERED + NOT_COVERED + STATELESS + rest
    (tmp_path / "job.py").write_text(job)
    settings = ["spark.master local[1]", "spark.slash.arena.size 64m", "spark.ui.enabled=false"]
    # As our own files for clusters have them.
    settings += ["spark.plugins  io.pyslash.SlashPlugin", "spark.submit.deployMode cluster"]
    (tmp_path / "some.conf").write_text("\n".join(settings))
    command = [sys.executable, "-m", "pyslash", "explain", "--properties-file", "some.conf", *JOB]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1, done.stderr[-3000:]
    line = 1 + job.splitlines().index(COVERED.splitlines()[2])
    assert f"query counts (job.py, line {line})\npyslash: covered, in complete mode" in done.stdout
    assert "query top (job.py, line" in done.stdout
    assert "pyslash: not covered, runs on plain Spark: limits" in done.stdout
    assert "it has no stateful operator" in done.stdout
    assert "the job has read ['job.py', '--day', 'monday'] 3 64m" in done.stdout
    assert "4 queries, 2 of them with state: pyslash covers 1" in done.stdout
    made = {path.name for path in tmp_path.iterdir()}
    of_spark = {"artifacts", "spark-warehouse"}  # the former by 4.0
    assert made <= {"job.py", "some.conf", *of_spark}, "no sink is opened"
    assert list(tmp_path.glob("spark-warehouse/*")) == [], "toTable makes no table"


def test_a_job_whose_queries_with_state_are_covered_passes(
    spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def replaced() -> list[object]:
        waits = StreamingQueryManager.awaitAnyTermination
        return [DataStreamWriter.start, DataStreamWriter.toTable, waits, sys.argv, [*sys.path]]

    before = replaced()
    assert explain(here, HEAD + COVERED + STATELESS) == 0
    assert replaced() == before, "the rehearsal is over"
    assert "2 queries, 1 of them with state: pyslash covers 1" in capsys.readouterr().out
    assert spark.streams.active == []


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (COVERED + "raise ValueError('no such day')", "queries behind this place are not known"),
        (COVERED + "sys.exit('no such day')", "job.py ended with no such day"),
        ("", "job.py starts no streaming query"),
    ],
)
def test_what_is_not_known_is_no_success(
    rest: str, said: str, spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(here, HEAD + rest) == 2
    found = capsys.readouterr()
    assert said in found.err
    assert ("pyslash: covered" in found.out) is (rest != "")


def test_pyslash_that_is_switched_off_covers_nothing(
    spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.conf.set("spark.slash.mode", "off")
    try:
        assert explain(here, HEAD + COVERED) == 1
        assert explain(here, HEAD + STATELESS) == 0
    finally:
        spark.conf.unset("spark.slash.mode")
    assert "spark.slash.mode=off, so it runs on plain Spark" in capsys.readouterr().out


def test_a_client_of_spark_connect_is_refused_before_its_server_starts_a_query(
    spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(here, HEAD + CLIENT) == 2
    assert "the job is a client of Spark Connect" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["explain"], ["backfill", "checkpoint", "archive"]])
def test_settings_that_cannot_be_read_are_a_wrong_argument(
    command: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command[0], "--properties-file", "none.conf", *command[1:], "job.py"])
    assert ended.value.code == 2
    assert "none.conf" in capsys.readouterr().err


def test_what_clients_alone_need_may_be_broken(
    spark: SparkSession, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("gencode 6.33.5 runtime 5.28.0")

    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.streaming.readwriter", Broken())  # type: ignore[arg-type]
    assert explain(here, HEAD + COVERED) == 0
    assert "runtime 5.28.0" not in capsys.readouterr().err
