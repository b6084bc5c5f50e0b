"""`make archive`: an environment as an archive, which Spark unpacks where its executors work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cluster.grouped import FOUND
from tests.install.kubernetes import ROOT


@pytest.mark.nightly
def test_executors_run_in_the_archive_that_spark_ships(tmp_path: Path) -> None:
    """As spark-conf/yarn.conf has it, but for the cluster: the names of the archive and of Python are the file's."""
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_TOOL_OPTIONS",)}
    subprocess.run(["make", "archive"], cwd=ROOT, env=environment, check=True)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": [i % 7 for i in range(1000)]}), tmp_path / "in" / "1.parquet")
    text = (ROOT / "spark-conf" / "yarn.conf").read_text()
    assert "pyslash-env.tar.gz#environment" in text
    assert "./environment/bin/python\n" in text
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    environment.pop("PYSPARK_PYTHON", None)
    command = ["spark-submit", "--master", "local-cluster[2,1,1024]"]
    command += ["--archives", f"{ROOT / 'dist' / 'pyslash-env.tar.gz'}#environment"]
    conf = {
        "spark.pyspark.driver.python": "slash-python",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.slash.mode": "require",
        "spark.slash.arena.size": "64m",
        "spark.executor.memory": "512m",
        "spark.slash.ingest": "arrow",  # through the executors' Python
    }
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(ROOT / "tests" / "cluster" / "grouped.py"), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert FOUND in done.stdout, done.stderr[-6000:]
