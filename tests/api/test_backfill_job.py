"""`pyslash backfill CHECKPOINT NAME job.py`: the job's query reads the history, and does not start."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash import cli
from tests.support.backfilled import Case, rows_of

JOB = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
try:
    rows = spark.readStream.schema("ts timestamp, other timestamp, k string, v long").parquet(sys.argv[1])
    rows = rows.withWatermark("ts", "10 seconds")
    for name, width in (("other", "1 hour"), ("sums", "10 seconds")):
        sums = rows.groupBy(F.window("ts", width), "k").agg(F.sum("v").alias("s"))
        query = sums.writeStream.queryName(name).option("checkpointLocation", f"own-{name}").outputMode("append")
        query.format("parquet").start(f"out-{name}").awaitTermination()
    sys.exit("the query has started")
finally:
    spark.stop() if "--stop" in sys.argv else None
"""


def sums(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"))


@pytest.fixture
def case(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A query that has stopped, and its job in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(textwrap.dedent(JOB))
    return Case(spark, tmp_path, sums)


def test_the_query_takes_the_history_of_its_jobs_stream(case: Case) -> None:
    """As a user gives it, with a Spark of its own."""
    before = case.run()
    settings = {"spark.master": "local[2]", "spark.sql.session.timeZone": "UTC", "spark.slash.arena.size": "64m"}
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    words = ["backfill", "--history", "history/in", "--query", "sums", *conf, "checkpoint", "archive", "job.py"]
    command = [sys.executable, "-m", "pyslash", *words, "live/in", "--stop"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "archive: 5 groups, which the query takes with its next rows, once\n"
    case.later()
    after = case.run()
    assert after.error is None
    assert rows_of([before, after]) == rows_of(case.expected())
    assert not list(Path().glob("out-*")) + list(Path().glob("own-*"))


def test_what_is_wrong_is_said_in_a_line(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.run()
    history = str(case.folder / "history/in")  # the JVM works in another folder

    def run(*words: str) -> tuple[int, str]:
        try:
            status = cli.main(["backfill", *words])
        finally:
            pyslash.disable()
        return status, capsys.readouterr().err

    status, told = run("--query", "none", "checkpoint", "archive", "job.py", history)
    assert (status, "has not started a query named none" in told) == (2, True)
    status, told = run("checkpoint", "archive", "job.py", history)
    assert (status, "the window: 0:00:10 -> 1:00:00" in told) == (1, True)
    status, told = run("--query", "sums", "elsewhere", "archive", "job.py", history)
    assert (status, "holds no state of pyslash" in told) == (2, True)
    assert not list(Path().glob("checkpoint/slash/backfills/*"))
