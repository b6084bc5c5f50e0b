"""One line of conf: a job that does not know pyslash, in applications with the plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.driver import plugin_job
from tests.support.plugin import PLUGIN
from tests.support.stream import in_order, seconds

JOB = Path(plugin_job.__file__)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])


def write_source(folder: Path) -> None:
    """Three micro-batches, the last of which closes the windows of the others."""
    folder.mkdir()
    for batch, start in enumerate((1000, 1010, 5000)):
        times = [seconds(start + row % 10) for row in range(20)]
        rows = pa.table({"ts": times, "k": [row % 3 for row in range(20)], "v": list(range(20))}, SCHEMA)
        path = folder / f"{batch:04d}.parquet"
        pq.write_table(rows, path)
        in_order(path, batch)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin") / "source"
    write_source(folder)
    return folder


def run(source: Path, folder: Path, *cases: str, **conf: str) -> tuple[dict[str, Any], str]:
    """What the job reports, run by `python job.py`, and what the driver logs."""
    settings = " ".join(f"--conf {name}={value}" for name, value in (PLUGIN | conf).items())
    done = subprocess.run(
        [sys.executable, str(JOB), str(source), str(folder), *cases],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=folder,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads((folder / "report.json").read_text()), done.stderr


@pytest.fixture(scope="module")
def report(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    return run(source, tmp_path_factory.mktemp("job"), *plugin_job.CASES)


@pytest.fixture(scope="module")
def kills(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(source, tmp_path_factory.mktemp("kills"), "function", *plugin_job.KILLS)[0]


@pytest.mark.parametrize("case", plugin_job.CASES)
def test_a_query_gives_in_each_micro_batch_what_it_gives_on_plain_spark(
    report: tuple[dict[str, Any], str], case: str
) -> None:
    found = report[0][case]
    assert (found["off on pyslash"], found["require on pyslash"]) == (False, True)
    assert found["require"] == found["off"]
    assert any(found["off"].values())


@pytest.mark.parametrize("point", plugin_job.KILLS)
def test_the_process_beside_the_driver_may_die_and_no_row_is_lost_doubled_or_wrong(
    kills: dict[str, Any], point: str
) -> None:
    found = kills["kills"][point]
    assert "the Python process of pyslash has " in found["said"]
    assert found["rows"] == sorted(row for rows in kills["function"]["off"].values() for row in rows)


def test_sessions_whose_manager_is_there_before_their_first_plan_keep_their_listeners(
    report: tuple[dict[str, Any], str],
) -> None:
    named = ("function", "failing", "failing")
    expected = [f"{case}_{mode}" for mode in ("off", "require") for case in named]
    assert [name for name in expected if name not in report[0]["started"]] == []


def test_what_must_not_start_says_why(report: tuple[dict[str, Any], str]) -> None:
    found = report[0]["refusals"]
    assert found["not covered, auto"] == "1 micro-batches"
    assert "stays on plain Spark: limits" in report[1]
    unsupported = "UnsupportedOperationException: UnsupportedQueryError: "
    assert found["not covered, require"].startswith(
        f"{unsupported}spark.slash.mode=require, but pyslash does not cover"
    )
    assert (
        "is pyslash's, which plain Spark cannot read, and spark.slash.mode=off" in found["off, over state of pyslash"]
    )
    for case, key in {
        "a key that there is not": "spark.slash.mod",
        "a value that there is not": "spark.slash.mode",
    }.items():
        assert found[case].startswith(f"IllegalArgumentException: ConfigError: {key}")


def test_a_job_that_enables_pyslash_is_asked_itself(report: tuple[dict[str, Any], str]) -> None:
    epochs = [0, 1, 2, 3]
    assert report[0]["enabled"] == {"before": [False, epochs], "enabled": [True, epochs], "disabled": [False, []]}


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_process_beside_the_driver_ends_with_it(report: tuple[dict[str, Any], str]) -> None:
    assert report[0]["side car"] != 0
    assert ended(report[0]["side car"])


def test_a_job_without_python_and_a_python_without_pyslash(source: Path, tmp_path: Path) -> None:
    """A Java job, and SQL: until it has a Python that answers, queries stay on plain Spark with the reason."""
    jars = Path(pyspark.__file__).parent / "jars"
    compiler = ["javac", "-cp", f"{jars}/*", "-d", str(tmp_path), str(JOB.with_name("PluginJob.java"))]
    subprocess.run(compiler, check=True, capture_output=True)
    settings = (
        plugin_job.SETTINGS
        | PLUGIN
        | {"spark.pyspark.python": "/bin/false", "spark.driver.extraClassPath": str(tmp_path)}
        | {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(tmp_path)}
        | {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    )
    submit = [str(jars.parent / "bin" / "spark-submit"), "--class", "PluginJob"]
    for name, value in settings.items():
        submit += ["--conf", f"{name}={value}"]
    done = subprocess.run(
        [*submit, "spark-internal", str(source), str(tmp_path), sys.executable],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    report = (tmp_path / "report").read_text().splitlines()

    def rows(name: str) -> list[str]:
        return [line.removeprefix(f"{name}: ") for line in report if line.startswith(f"{name}: ")]

    assert rows("require") == rows("auto without Python") == rows("off") != []
    assert [line for line in report if "on pyslash" in line] == [
        "off on pyslash: false",
        "auto without Python on pyslash: false",
        "require on pyslash: true",
    ]
    assert "keeps the JVM alive: []" in report
    reason = "the Python beside the driver, /bin/false (spark.pyspark.python), has ended with status 1"
    assert f"stays on plain Spark: {reason}" in done.stderr
    refusal = "refused: UnsupportedQueryError: spark.slash.mode=require, but pyslash cannot run this query: "
    assert any(line.startswith(refusal + reason) for line in report)
    (log,) = tmp_path.glob("local-*")
    told = [json.loads(line)["figures"] for line in log.read_text().splitlines() if "io.pyslash.ui.SlashEvent" in line]
    left = [figures for figures in told if figures.get("reason")]
    assert [figures["fallback"] for figures in left] == [True]  # of the one that `auto` has left to Spark
    assert left[0]["reason"].startswith(reason)


TWICE = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.driver.plugin_job import SETTINGS

def agents() -> int:
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_agent = b"pyslash.agent\\0serve" in (process / "cmdline").read_bytes()
            found += is_agent and b"PYSLASH_TWICE=1" in (process / "environ").read_bytes()
        except OSError:
            pass
    return found

for _ in range(2):
    spark = SparkSession.builder.config(map=SETTINGS).config("spark.slash.mode", "require").getOrCreate()
    rows = spark.readStream.schema("ts timestamp, k long, v long").parquet(sys.argv[1]).groupBy("k").count()
    query = rows.writeStream.format("noop").outputMode("update").trigger(once=True).start()
    assert query.awaitTermination(300)
    print("agents", agents())
    spark.stop()
"""


def test_applications_of_one_jvm_have_one_agent(source: Path, tmp_path: Path) -> None:
    """It lives as long as the JVM, which is the executor."""
    settings = " ".join(f"--conf {name}={value}" for name, value in PLUGIN.items())
    told = {"PYTHONPATH": str(JOB.parents[2]), "PYSLASH_TWICE": "1", "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"}
    (tmp_path / "job.py").write_text(TWICE)
    done = subprocess.run(
        [sys.executable, tmp_path / "job.py", source],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=tmp_path,
        env={**os.environ, **told},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert [line for line in done.stdout.splitlines() if line.startswith("agents")] == ["agents 1"] * 2
