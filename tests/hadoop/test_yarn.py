"""spark-conf/yarn.conf on YARN: its archive is unpacked in every container, and queries run there.

The plugin's Python is beside the driver, wherever that is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from pyslash.spark.jvm_bridge import jar_path
from tests.cluster.grouped import FOUND
from tests.examples.test_page_views import java, sql
from tests.hadoop.small import JARS, Yarn, yarn
from tests.support.page_views import counts_of, write_views

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = "pyslash-env.tar.gz"
# The file wants containers of 11 GiB, which this machine may not have.
SMALL = {
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "512m",
    "spark.driver.memory": "512m",
    "spark.slash.arena.size": "64m",
    "spark.slash.home.size": "64m",
    "spark.slash.mode": "require",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.yarn.jars": f"local:{JARS}/*",  # as Spark is on a cluster's hosts
}
CLIENT = {"spark.submit.deployMode": "client", "spark.pyspark.driver.python": sys.executable}
GROUPED = str(ROOT / "tests" / "cluster" / "grouped.py")
# Where the driver is, and so the Python beside it: of the submitting host, or of the archive.
BESIDE = {"client": sys.executable, "cluster": "./environment/bin/python"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn")) as running:
        yield running


def stand_in(folder: Path) -> None:
    """What `make archive` gives, as far as YARN and Spark look at it; its Python is this environment's."""
    commands = folder / "made" / "bin"
    commands.mkdir(parents=True)
    (commands / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (commands / "python").chmod(0o755)
    with tarfile.open(folder / ARCHIVE, "w:gz") as packed:
        packed.add(commands.parent, arcname=".")


def submit(cluster: Yarn, folder: Path, *job: str, **conf: str) -> subprocess.CompletedProcess[str]:
    """Run a job by the file, in the folder that has its archive."""
    environment = dict(cluster.environment)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    del environment["PYSPARK_PYTHON"]  # it would go before the file's
    settings = {**SMALL, "spark.yarn.stagingDir": str(folder / "staging"), **conf}
    for name in ("JAVA_TOOL_OPTIONS", "SPARK_LOCAL_IP"):  # containers do not inherit them
        settings |= {f"spark.{where}.{name}": environment[name] for where in ("yarn.appMasterEnv", "executorEnv")}
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    command += ["--jars", str(jar_path()), "--properties-file", str(ROOT / "spark-conf" / "yarn.conf")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return subprocess.run(
        [*command, *job], cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def grouped(cluster: Yarn, folder: Path, **conf: str) -> subprocess.CompletedProcess[str]:
    """The job that says what it found, over rows of its own."""
    (folder / "in").mkdir()
    pq.write_table(pa.table({"k": [i % 7 for i in range(1000)]}), folder / "in" / "1.parquet")
    return submit(cluster, folder, GROUPED, str(folder), **conf)


def test_a_query_runs_in_containers(cluster: Yarn, tmp_path: Path) -> None:
    """The driver runs where it was submitted, as the file's comment says how."""
    stand_in(tmp_path)
    before = set(cluster.logs("stderr"))
    done = grouped(cluster, tmp_path, **CLIENT, **{"spark.slash.ingest": "files"})  # through the executors' Python
    logs = {name: log for name, log in cluster.logs("stderr").items() if name not in before}
    assert FOUND in done.stdout, done.stderr[-5000:] + "".join(log[-2000:] for log in logs.values())
    assert sum("Starting executor ID" in log for log in logs.values()) == 2


def test_the_driver_is_in_a_container_too(cluster: Yarn, tmp_path: Path) -> None:
    """As the file has it."""
    stand_in(tmp_path)
    before = set(cluster.logs("stdout"))
    done = grouped(cluster, tmp_path)
    assert done.returncode == 0, done.stderr[-5000:] + "".join(log[-2000:] for log in cluster.logs("stderr").values())
    assert FOUND not in done.stdout
    assert [FOUND in log for name, log in cluster.logs("stdout").items() if name not in before].count(True) == 1


@pytest.mark.parametrize(
    ("build", "where"),
    [
        (sql, "cluster"),
        pytest.param(java, "cluster", marks=pytest.mark.nightly),
        pytest.param(sql, "client", marks=pytest.mark.nightly),
    ],
)
def test_a_job_that_does_not_know_pyslash_runs_by_the_plugin(
    build: Callable[[Path], list[str]], where: str, cluster: Yarn, tmp_path: Path
) -> None:
    """With the rows of each micro-batch that plain Spark gives, on the same containers."""
    stand_in(tmp_path)
    write_views(tmp_path / "views")
    job = build(tmp_path)
    found = {}
    for mode in ("off", "require"):
        folder = tmp_path / mode
        settings = {
            "spark.slash.mode": mode,
            "spark.submit.deployMode": where,
            "spark.pyspark.driver.python": BESIDE[where],
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        before = set(cluster.logs("stderr"))
        arguments = [str(tmp_path / "views"), str(folder / "counts"), str(folder / "checkpoint"), "1"]
        done = submit(cluster, tmp_path, *job, *arguments, **settings)
        logs = {name: log for name, log in cluster.logs("stderr").items() if name not in before}
        assert done.returncode == 0, done.stderr[-5000:] + "".join(log[-3000:] for log in logs.values())
        found[mode] = counts_of(folder / "counts")
        of_driver = [done.stderr] if where == "client" else list(logs.values())
        assert any("runs on pyslash" in log for log in of_driver) == (mode == "require")
    assert found["require"] == found["off"]
    assert (tmp_path / "require" / "checkpoint" / "slash").is_dir()
    assert not (tmp_path / "off" / "checkpoint" / "slash").exists()


@pytest.mark.nightly
def test_the_packed_environment_runs_in_containers(cluster: Yarn, tmp_path: Path) -> None:
    """`make archive`: nothing of this environment is in it."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    subprocess.run(["make", "archive"], cwd=ROOT, env=environment, check=True)
    (tmp_path / ARCHIVE).symlink_to(ROOT / "dist" / ARCHIVE)
    done = grouped(cluster, tmp_path, **{"spark.slash.ingest": "files"})
    assert done.returncode == 0, done.stderr[-5000:] + "".join(log[-2000:] for log in cluster.logs("stderr").values())
    assert any(FOUND in log for log in cluster.logs("stdout").values())
