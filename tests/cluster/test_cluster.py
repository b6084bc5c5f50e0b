"""Two executors with an agent each: their partial state is merged across agents, by every transport."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyslash.spark.jvm_bridge import jar_path
from tests.cluster import dynamic
from tests.cluster.job import FOUND, ROWS
from tests.cluster.standalone import standalone_cluster
from tests.examples.test_page_views import java
from tests.support.nightly import some_at_night
from tests.support.page_views import counts_of, write_views
from tests.support.plugin import PLUGIN
from tests.support.stream import seconds

ROOT = Path(__file__).resolve().parents[2]


class Application:
    """A driver whose stream runs as often as it is asked for, in one variant after the other."""

    def __init__(self, master: str, folder: Path) -> None:
        self._log = folder / "driver.log"
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "tests.cluster.job", master, str(folder)]
            self._driver = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def run(self, *variants: dict[str, str]) -> list[dict[str, Any]]:
        """What each variant found; its rows are Spark's, batch by batch."""
        findings = []
        for variant in variants:
            found = self._ask(variant)
            assert found["differences"] == []
            assert found["rows"] > 1000
            # The host of the straggler may hold nothing, whichever it is.
            if variant.get("fault") not in ("straggle", "kill"):
                assert found["agents"] == 2
            findings.append(found)
        return findings

    def _ask(self, variant: dict[str, str]) -> dict[str, Any]:
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._driver.stdin.write(json.dumps(variant) + "\n")
        self._driver.stdin.flush()
        for line in self._driver.stdout:
            if line.startswith(FOUND):
                found: dict[str, Any] = json.loads(line.removeprefix(FOUND))
                return found
        raise AssertionError(f"the driver has ended at {variant}: {self._log.read_text()[-6000:]}")

    def end(self) -> None:
        """Ends the driver, and with it its executors."""
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        try:
            self._driver.wait(60)
        finally:
            self._driver.kill()


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """On two executors of this host, which Spark starts again when they are killed."""
    application = Application("local-cluster[2,1,1024]", tmp_path_factory.mktemp("cluster"))
    try:
        yield application
    finally:
        application.end()


def test_local_cluster(application: Application) -> None:
    # No merge in the driver: both merge tasks read from both agents.
    retried = {"ingest": "rows", "merge.driverBytes": "0", "fault": "retry"}
    by_tcp, by_memory = application.run(*(retried | {"transport": transport} for transport in ("tcp", "auto")))
    for found, used, unused in ((by_tcp, "tcp", "shm"), (by_memory, "shm", "tcp")):
        assert found["bytes_read"][used] > 0
        assert found["bytes_read"][unused] == 0


HOMES = {"ingest": "rows", "merge.driverBytes": "0"}
KEPT = {
    "groups": {**HOMES, "output": "update"},
    "all groups": {**HOMES, "output": "complete"},
    "unique": {**HOMES, "query": "unique"},
    "sessions": {**HOMES, "query": "sessions"},
    "joined": {"query": "joined", "merge.driverBytes": "0"},
    "chained": {**HOMES, "query": "chained"},
}


def check_who_kept(query: str, found: dict[str, Any]) -> None:
    """Both executors kept what the query needs again; in a chain, of each operator."""
    assert "2 homes" in found["merged_by"]
    if query == "chained":
        assert found["operators"] == [0, 1]
        assert "2 tasks" in found["merged_by"]  # the windows of the rows without duplicates


@pytest.mark.parametrize("query", some_at_night(["groups", "unique", "sessions"], {"unique", "sessions"}))
def test_executors_read_from_each_other_what_has_changed(application: Application, query: str) -> None:
    kept, read = application.run(KEPT[query], {**KEPT[query], "transport": "tcp"})
    check_who_kept(query, kept)
    check_who_kept(query, read)
    assert read["bytes_read"]["shm"] == 0
    assert 0 < read["bytes_read"]["tcp"] <= kept["bytes_read"]["shm"] * 1.2  # changes alone, as in memory


@pytest.mark.nightly
@pytest.mark.parametrize("query", ["all groups", "joined", "chained"])
def test_executors_of_a_host_read_from_each_others_memory(application: Application, query: str) -> None:
    (kept,) = application.run(KEPT[query])
    check_who_kept(query, kept)
    assert kept["bytes_read"]["shm"] > 0
    assert kept["bytes_read"]["tcp"] == 0


# Executors that keep groups are killed in tests/faults/test_operators.py, too.
@pytest.mark.parametrize(
    "query",
    some_at_night(["groups", "unique", "sessions", "joined", "chained"], {"groups", "unique", "sessions", "joined"}),
)
def test_what_an_executor_kept_is_read_again_where_it_is_lost(application: Application, query: str) -> None:
    more = {"session.rewriteBytes": "1"} if query == "sessions" else {}
    (killed,) = application.run({**KEPT[query], **more, "transport": "tcp", "fault": "kill"})
    check_who_kept(query, killed)
    assert killed["bytes_read"]["shm"] == 0
    assert killed["bytes_read"]["tcp"] > 0


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a standalone cluster with two workers, each a host of its own to Spark."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as master:
        yield master


# A query on such a cluster starts below, with a file of properties.
@pytest.mark.nightly
def test_standalone_cluster(master: str, tmp_path: Path) -> None:
    variants = [
        {"transport": "tcp", "merge.driverBytes": "0"},
        {"merge.driverBytes": "64m", "fault": "straggle"},
    ]
    application = Application(master, tmp_path)
    try:
        by_tasks, by_driver = application.run(*variants)
    finally:
        application.end()
    assert by_tasks["bytes_read"]["tcp"] > 0
    assert "driver" in by_driver["merged_by"]


@pytest.mark.nightly
def test_executors_that_come_and_go(master: str, tmp_path: Path) -> None:
    """By dynamic allocation, and decommissioned: the state of those that go is where it is needed."""
    (tmp_path / "in").mkdir()
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
    for number in range(5):
        times = [seconds(5 * number + row / 200) for row in range(1000)]
        columns = [times, [row % 7 for row in range(1000)], list(range(1000))]
        pq.write_table(pa.table(columns, schema=schema), tmp_path / "in" / f"{number}.parquet", row_group_size=100)
    done = submitted([sys.executable, "-m", "tests.cluster.dynamic", master, str(tmp_path)])
    assert done.returncode == 0, done.stderr[-5000:]
    (told,) = (line for line in done.stdout.splitlines() if line.startswith(dynamic.FOUND))
    found = json.loads(told.removeprefix(dynamic.FOUND))
    assert found["require"]["batches"] == found["off"]["batches"]
    assert len(found["off"]["batches"]) >= 5
    assert found["require"]["executors"] == found["off"]["executors"] == [2, 1, 1, 2, 1]
    assert (found["require"]["epochs"] > 0, found["off"]["epochs"]) == (True, 0)


@pytest.mark.nightly
def test_a_java_job_whose_driver_runs_on_a_worker(master: str, tmp_path: Path) -> None:
    """`--deploy-mode cluster`, which standalone clusters have for jobs without Python: one starts beside the driver."""
    write_views(tmp_path / "views")
    job = java(tmp_path)
    found = {}
    for mode in ("off", "require"):
        folder = tmp_path / mode
        settings = {
            **PLUGIN,
            "spark.slash.mode": mode,
            "spark.slash.arena.size": "64m",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.pyspark.python": sys.executable,
            "spark.standalone.submit.waitAppCompletion": "true",
        }
        command = ["spark-submit", "--master", master, "--deploy-mode", "cluster"]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        folders = [str(folder / name) for name in ("counts", "checkpoint")]
        done = submitted([*command, *job[:-1], str(tmp_path / job[-1]), str(tmp_path / "views"), *folders, "1"])
        assert done.returncode == 0, done.stderr[-5000:]
        found[mode] = counts_of(folder / "counts")
    assert found["require"] == found["off"]
    assert (tmp_path / "require" / "checkpoint" / "slash").is_dir()
    assert not (tmp_path / "off" / "checkpoint" / "slash").exists()


def submitted(command: list[str], python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """A command of this environment; executors run `python`."""
    environment = {**os.environ, "PYSPARK_PYTHON": python}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)


SMALL = ("spark.executor.memory=512m", "spark.slash.arena.size=64m")


def doctor(master: str, python: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """The exit status of `pyslash doctor` on that cluster, and its findings by check."""
    command = ["pyslash", "doctor", "--json", "--master", master]
    command += [
        "--properties-file",
        str(ROOT / "spark-conf" / "standalone.conf"),
        "--conf",
        f"spark.pyspark.python={python}",
    ]
    done = submitted([*command, *(word for setting in SMALL for word in ("--conf", setting))], python)
    findings: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(done.stdout or done.stderr)["findings"]:
        findings.setdefault(finding["check"], []).append(finding)
    return done.returncode, findings


@pytest.mark.nightly
def test_doctor_asks_every_executor(master: str) -> None:
    status, findings = doctor(master, sys.executable)
    assert status == 0
    assert [finding["found"] for finding in findings["pyslash"]] == ["0.1.0, and its native module: 2 of 2 executors"]
    assert findings["clock"][0]["found"] == "2 of 2 executors agree with the driver"
    assert findings["arenas"][0]["status"] == "ok"


def test_doctor_reports_executors_whose_python_lacks_pyslash(master: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", symlinks=True)
    status, findings = doctor(master, str(tmp_path / "empty" / "bin" / "python"))
    assert status == 1
    assert [finding["status"] for finding in findings["executor python"]] == ["ok"]
    lacking = findings["pyslash"]
    assert [finding["status"] for finding in lacking] == ["failure", "failure"]
    named = {tuple(finding["found"].partition(":")[0].split(" on ")) for finding in lacking}
    assert {name for name, _ in named} == {"executor 0", "executor 1"}
    assert {host for _, host in named} == {"127.0.0.1", "127.0.0.2"}
    assert all("No module named 'pyslash'" in finding["found"] for finding in lacking)
    assert all("spark.pyspark.python" in finding["fix"] for finding in lacking)


@pytest.mark.parametrize(
    "file",
    ["standalone.conf", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("roce.conf", "infiniband.conf"))],
)
def test_a_query_starts_with_the_properties_file(master: str, file: str, tmp_path: Path) -> None:
    table = {"ts": [seconds(1000 + i) for i in range(ROWS)], "k": [i % 7 for i in range(ROWS)]}
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table(table, pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])), tmp_path / "in" / "1"
    )
    job = tmp_path / "job.py"
    job.write_text(JOB.format(folder=tmp_path))
    command = ["spark-submit", "--master", master, "--jars", str(jar_path())]
    command += ["--properties-file", str(ROOT / "spark-conf" / file)]
    command += ["--conf", "spark.slash.mode=require", "--conf", f"spark.pyspark.python={sys.executable}"]
    done = submitted([*command, *(word for setting in SMALL for word in ("--conf", setting)), str(job)])
    assert done.returncode == 0, done.stderr[-4000:]
    assert "groups on pyslash: 7" in done.stdout


JOB = """
import pyslash
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("ts timestamp, k long").parquet("{folder}/in")
counts = rows.groupBy("k").count().writeStream.format("memory").queryName("counts").outputMode("complete")
query = counts.option("checkpointLocation", "{folder}/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
assert pyslash.progress(query), "the query ran on plain Spark"
print("groups on pyslash:", spark.table("counts").count())
"""
