"""Clients of a Spark Connect server with the plugin."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.driver import plugin_job
from tests.driver.test_plugin import write_source
from tests.support.connect_server import BIN, Server, connect_server
from tests.support.example import EXAMPLES
from tests.support.page_views import counts_of, write_views

ROOT = Path(__file__).parents[2]
THIN = ROOT / "build/clients/pyspark"
CLIENT = Path(__file__).with_name("connect_client.py")
SQL = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
for statement in sys.argv[2:]:
    spark.sql(statement)
"""
VIEWS = "page_views (viewed_at TIMESTAMP, page STRING, seconds BIGINT) USING parquet LOCATION"
SPECIFICATION = """
name: page_views
storage: {folder}/storage
database: "{mode}"
libraries: [{{glob: {{include: page_views.sql}}}}]
configuration: {{spark.slash.mode: "{mode}"}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio")
    with connect_server(tmp_path_factory.mktemp("server"), plugin_job.SETTINGS) as running:
        yield running


@pytest.mark.always
def test_a_client_gets_in_each_micro_batch_what_plain_spark_gives(server: Server, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_source(source)
    if not (THIN / ".complete").exists():
        pytest.skip("no client of Spark Connect without Spark: no pyspark-client (scripts/clients.sh fetches it)")
    path = os.pathsep.join(map(str, (THIN, ROOT)))
    server.run(sys.executable, CLIENT, server.url, source, tmp_path, folder=tmp_path, PYTHONPATH=path)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["require"] == report["off"]
    assert [len(batches) for batches in report["require"].values()] == [4, 4, 5]
    assert report["require"]["listened"]["began and ended"] == ["1 1"]
    assert "UnsupportedQueryError: spark.slash.mode=require, but pyslash does not cover this query" in report["refused"]
    for case in report["require"]:
        assert (tmp_path / "require" / case / "checkpoint" / "slash").is_dir()
        assert not (tmp_path / "off" / case / "checkpoint" / "slash").exists()
    _check_answers(report["asked"])


ASK = """
import sys
import pyslash
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
rows = spark.readStream.format("rate").load().groupBy("value").count()
pyslash.explain(rows, "update")
query = rows.writeStream.format("noop").outputMode("update").trigger(once=True).start()
query.awaitTermination()
print([epoch["epoch"] for epoch in pyslash.progress(query)])
"""


def test_a_client_that_has_all_of_pyspark_asks_by_the_same_names(server: Server, tmp_path: Path) -> None:
    told = server.run(sys.executable, "-c", ASK, server.url, folder=tmp_path)
    assert "pyslash: covered, in update mode" in told
    assert told.splitlines()[-1] == "[0]"


EXPLAIN = """
import sys
from pyspark.sql import SparkSession
from pyslash import connect

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(connect.explain(spark.readStream.format("rate").load().groupBy("value").count(), "update"))
"""


def test_of_a_python_that_has_died_the_server_keeps_no_socket(server: Server, tmp_path: Path) -> None:
    def ask() -> None:
        assert "covered" in server.run(sys.executable, "-c", EXPLAIN, server.url, folder=tmp_path)

    ask()
    before = _listening(server.pid)
    (python,) = (child for child in _children(server.pid) if b"pyslash.side_car" in _proc(child, "cmdline"))
    os.kill(python, signal.SIGKILL)
    ask()
    assert _listening(server.pid) == before


MANY = """
for _ in range(30):
    connect.explain(spark.readStream.format("rate").load().groupBy("value").count(), "update")
"""


def test_questions_leave_no_connection_behind(server: Server, tmp_path: Path) -> None:
    """Each of them comes in a thread of its own."""

    def threads() -> int:
        (python,) = (child for child in _children(server.pid) if b"pyslash.side_car" in _proc(child, "cmdline"))
        return len([*Path(f"/proc/{python}/task").iterdir()])

    server.run(sys.executable, "-c", EXPLAIN, server.url, folder=tmp_path)
    before = threads()
    server.run(sys.executable, "-c", EXPLAIN + MANY, server.url, folder=tmp_path)
    assert threads() < before + 10


def _proc(pid: int, name: str) -> bytes:
    return Path("/proc", str(pid), name).read_bytes()


def _children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in _proc(pid, f"task/{task.name}/children").split()
    ]


def _listening(pid: int) -> int:
    """How many sockets of a process take connections."""
    files = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
    lines = [line.split() for name in ("net/tcp", "net/tcp6") for line in _proc(pid, name).decode().splitlines()]
    return sum(line[3] == "0A" and f"socket:[{line[9]}]" in files for line in lines)


@pytest.mark.nightly
def test_a_server_without_the_plugin_cannot_be_asked(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio")
    ask = f"try:\n    exec({ASK!r})\nexcept Exception as error:\n    print(type(error).__name__, error)"
    with connect_server(tmp_path, plugin_job.SETTINGS, plugin={}) as plain:
        told = plain.run(sys.executable, "-c", ask, plain.url, folder=tmp_path)
    assert told.startswith("UnsupportedQueryError the Spark Connect server has no pyslash: switch it on there")


def _check_answers(asked: dict[str, Any]) -> None:
    assert asked["covered"].startswith("pyslash: covered, in update mode, with any sink\n  window      no window")
    assert asked["not covered"].startswith("pyslash: not covered, runs on plain Spark: limits of a stream's own rows")
    assert asked["no mode"].startswith("InvalidInputError: the output mode is 'apend'")
    assert asked["epochs"] == [[0, 20], [1, 20], [2, 20], [3, 0]]
    assert asked["state"] == sorted([[0, 63], [1, 70], [2, 57]] * 2)  # of the window of 1010 s, and of 5000 s
    assert asked["of the query"] == 3
    assert asked["no state"].startswith("CheckpointError: ")
    assert asked["no option"] == (
        "InvalidInputError: slash-state has no option version; it has query, epoch, savepoint, operator, "
        "joinSide, partitions"
    )


def test_a_pipeline_in_sql_gets_in_each_micro_batch_what_plain_spark_gives(server: Server, tmp_path: Path) -> None:
    """`examples/page_views.sql`, with a file a micro-batch; each engine has a database with the same input."""
    write_views(tmp_path / "views")
    pipeline = (EXAMPLES / "page_views.sql").read_text()
    assert "maxFilesPerTrigger = 8" in pipeline
    found = {}
    for mode in ("off", "require"):
        folder = tmp_path / mode
        folder.mkdir()
        tables = [f"CREATE DATABASE {mode}", f"CREATE TABLE {mode}.{VIEWS} '{tmp_path / 'views'}'"]
        server.run(sys.executable, "-c", SQL, server.url, *tables, folder=folder)
        (folder / "page_views.sql").write_text(pipeline.replace("maxFilesPerTrigger = 8", "maxFilesPerTrigger = 1"))
        (folder / "spark-pipeline.yml").write_text(SPECIFICATION.format(folder=folder.as_uri(), mode=mode))
        server.run(BIN / "spark-pipelines", "run", "--remote", server.url, folder=folder)
        found[mode] = counts_of(server.folder / "warehouse" / f"{mode}.db" / "page_view_counts")
        assert len(list(folder.glob("storage/**/slash"))) == (mode == "require")
    assert found["require"] == found["off"]
    assert "query spark_catalog.require.page_view_counts runs on pyslash" in server.log.read_text()
