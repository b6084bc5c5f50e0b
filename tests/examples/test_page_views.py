"""One job in Java, in Scala and in SQL, built and submitted as users do it: on plain Spark, and with the plugin."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.driver.plugin_job import SETTINGS
from tests.support.example import EXAMPLES
from tests.support.page_views import counts_of, write_views
from tests.support.plugin import PLUGIN

SPARK = Path(pyspark.__file__).parent


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "views"
    write_views(folder)
    return folder


def java(folder: Path) -> list[str]:
    compiled = folder / "classes"
    run(["javac", "-cp", f"{SPARK}/jars/*", "-d", str(compiled), str(EXAMPLES / "PageViews.java")], folder)
    run(["jar", "--create", "--file", "page-views.jar", "-C", str(compiled), "."], folder)
    return ["--class", "PageViews", "page-views.jar"]


def scala(folder: Path) -> list[str]:
    compiler = ["java", "-cp", f"{SPARK}/jars/*", "scala.tools.nsc.Main", "-usejavacp", "-d", "page-views.jar"]
    run([*compiler, str(EXAMPLES / "PageViews.scala")], folder)
    return ["--class", "PageViews", "page-views.jar"]


def sql(folder: Path) -> list[str]:
    return [str(EXAMPLES / "page_views_sql.py")]


def run(command: list[str], folder: Path) -> str:
    """A command that has to succeed; what it logs."""
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-5000:]}"
    return done.stderr


def submit(job: list[str], views: Path, folder: Path, settings: dict[str, str]) -> tuple[list[Counter[Any]], str]:
    """The rows that the sink's own log has of each micro-batch, and what the driver has logged."""
    output, checkpoint = folder / "counts", folder / "checkpoint"
    command = [str(SPARK / "bin" / "spark-submit")]
    for name, value in (SETTINGS | {"spark.sql.warehouse.dir": str(folder / "warehouse")} | settings).items():
        command += ["--conf", f"{name}={value}"]
    logged = run([*command, *job, str(views), str(output), str(checkpoint), "1"], folder.parent)
    return counts_of(output), logged


def epochs(folder: Path) -> list[dict[str, Any]]:
    """What pyslash has told the application's event log of each operator's epochs."""
    (log,) = folder.iterdir()
    events = map(json.loads, log.read_text().splitlines())
    told = [event for event in events if event["Event"] == "io.pyslash.ui.SlashEvent" and event["kind"] == "epoch"]
    return [figures for event in told for figures in event["figures"]["operators"]]


@pytest.mark.parametrize("build", [java, pytest.param(scala, marks=pytest.mark.always), sql])
def test_the_job_runs_on_pyslash_by_the_plugin_alone(
    build: Callable[[Path], list[str]], views: Path, tmp_path: Path
) -> None:
    job = build(tmp_path)
    expected, _ = submit(job, views, tmp_path / "spark", {})
    assert not (tmp_path / "spark" / "checkpoint" / "slash").exists()
    (tmp_path / "events").mkdir()
    events = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(tmp_path / "events"),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.slash.mode": "require",
    }
    found, logged = submit(job, views, tmp_path / "slash", PLUGIN | events)
    assert found == expected
    assert "runs on pyslash" in logged
    figures = epochs(tmp_path / "events")
    assert sum(epoch["rows"] for epoch in figures) == pq.read_table(views).num_rows
    assert sum(epoch["late_rows"] for epoch in figures) > 0
