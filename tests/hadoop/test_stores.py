"""A whole query on S3 and on HDFS, by Hadoop's own clients: logs, state and result are in a server on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import boto3
import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from moto.core.responses import TYPE_RESPONSE
from moto.s3.responses import S3Response
from pyspark.sql import SparkSession
from werkzeug.datastructures import Headers

from pyslash.errors import CheckpointError
from pyslash.file_systems import obstacle_of, open_location
from pyslash.spark.session import changed
from pyslash.state.tree import Tree
from tests.hadoop import store_job
from tests.hadoop.small import hdfs
from tests.support.hadoop import fetched
from tests.support.s3_server import s3_server
from tests.support.stream import seconds

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
FIRST, STRUCK, SECOND = "012", "2", "3"
OF_OBJECTS = "files of an object store by one request each"
PUT = S3Response.put_object


def write(folder: Path) -> Path:
    """A file of each ten seconds, with rows that are late from the third on; the input is empty at first."""
    (folder / "in").mkdir(parents=True)
    for number in range(len(FIRST + SECOND)):
        times = [seconds(10 * number + row / 10 - (25 if row == 50 else 0)) for row in range(100)]
        columns = [times, [row % 3 for row in range(100)], list(range(100))]
        pq.write_table(pa.table(columns, schema=SCHEMA), folder / f"{number}.parquet")
    return folder


def batches(location: str) -> dict[int, Counter[Any]]:
    """The rows of each micro-batch, by the sink's own log."""
    files, root = open_location(f"{location}/out/_spark_metadata")
    found = {}
    for log in files.get_file_info(fs.FileSelector(root)):
        if log.base_name.isdigit():
            with files.open_input_stream(log.path) as stream:
                paths = [unquote(json.loads(line)["path"]) for line in stream.readall().decode().splitlines()[1:]]
            tables = [pq.read_table(path, filesystem=at) for at, path in map(open_location, paths)]
            found[int(log.base_name)] = Counter(tuple(row.values()) for rows in tables for row in rows.to_pylist())
    return found


def by_spark(spark: SparkSession, folder: Path) -> dict[int, Counter[Any]]:
    """What plain Spark gives, on a disk, with the same files and the same restart."""
    location = f"file:{folder}"
    with changed(spark, {"spark.slash.mode": "off"}):
        for part in (FIRST, SECOND):
            query = store_job.start(spark, folder, location)
            for number in part:
                store_job.read(query, folder, int(number))
            query.stop()
    return batches(location)


def by_pyslash(folder: Path, location: str, log: Path, *arguments: str) -> list[dict[str, Any]]:
    """What an application tells of its epochs; then all of it is killed: the driver, its JVM, its agent."""
    command = [sys.executable, "-m", "tests.hadoop.store_job", str(folder), location, *arguments]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as job,
    ):
        assert job.stdout is not None
        try:
            told = next((line for line in job.stdout if line.startswith(store_job.TOLD)), None)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert told, log.read_text()[-4000:]
    return json.loads(told.removeprefix(store_job.TOLD))  # type: ignore[no-any-return]


def check_survives(spark: SparkSession, folder: Path, location: str) -> None:
    """A query gives Spark's rows in each micro-batch, whose agent and then whose driver are killed."""
    expected = by_spark(spark, write(folder / "spark"))
    assert sum(map(Counter.total, expected.values())) == 3 * len(FIRST)
    job = write(folder / "slash")
    first = by_pyslash(job, location, folder / "first", FIRST, STRUCK)
    second = by_pyslash(job, location, folder / "second", SECOND)
    files, root = open_location(f"{location}/checkpoint/slash/blocks")
    assert files.get_file_info(fs.FileSelector(root))
    assert batches(location) == expected
    assert [epoch["epoch"] for epoch in first + second] == sorted(expected)
    assert [epoch["recoveries"] for epoch in first if epoch["recoveries"]] == [1]
    assert max(epoch["restored_files"] for epoch in first) > 0, "the new agent has read its state there"
    assert second[0]["restored_files"] > 0, "so has the agent of the new driver"


@pytest.mark.always
def test_a_query_on_s3_survives_its_agent_and_its_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched("s3")
    with s3_server(monkeypatch) as bucket:
        check_survives(spark, tmp_path, f"{bucket}/query")


def unconditional(response: S3Response) -> TYPE_RESPONSE:
    """A store's answer to a PUT that heeds no condition, as of some that are like S3."""
    response.headers = Headers([(name, value) for name, value in response.headers if name != "If-None-Match"])
    return PUT(response)


def refusing(response: S3Response) -> TYPE_RESPONSE:
    """Of some others."""
    return (501, {}, "") if "If-None-Match" in response.headers else PUT(response)


@pytest.mark.parametrize("heeds", ["heeds", "ignores", "refuses"])
def test_a_name_in_an_object_store_is_given_once(monkeypatch: pytest.MonkeyPatch, heeds: str) -> None:
    """By one request, where the store refuses to give it twice; else as Spark creates files there."""
    fetched("s3")
    if heeds != "heeds":
        monkeypatch.setattr(S3Response, "put_object", unconditional if heeds == "ignores" else refusing)
    with s3_server(monkeypatch) as bucket:
        command = [sys.executable, "-m", "tests.hadoop.object_job", f"{bucket}/{heeds}"]
        job = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert job.returncode == 0, job.stderr[-4000:]
        told = json.loads(job.stdout.splitlines()[-1])
        left = boto3.client("s3").list_objects_v2(Bucket=bucket.removeprefix("s3a://"), Prefix=f"{heeds}/")
    assert told == {"manager": OF_OBJECTS, "taken": True, "found": {"0": "first", "2": "new"}}
    names = {one["Key"].rpartition("/")[2] for one in left["Contents"]} - {""}
    assert {name for name in names if heeds == "heeds" or not name.startswith(".")} == {
        "0",
        "2",
    }  # Spark leaves temporary files


def test_a_file_whose_first_answer_was_lost_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop repeats the request by itself, and meets what it has written."""
    fetched("s3")
    lost: list[str] = []

    def losing(response: S3Response) -> TYPE_RESPONSE:
        answer = PUT(response)
        if response.path.endswith("/log/0") and not lost:
            lost.append(response.path)
            return 500, {}, ""
        return answer

    monkeypatch.setattr(S3Response, "put_object", losing)
    with s3_server(monkeypatch) as bucket:
        command = [sys.executable, "-m", "tests.hadoop.object_job", f"{bucket}/lost"]
        job = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert job.returncode == 0, job.stderr[-4000:]
    assert lost
    assert json.loads(job.stdout.splitlines()[-1])["found"] == {"0": "first", "2": "new"}


@pytest.fixture(scope="module")
def name_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


def test_a_query_on_hdfs_survives_its_agent_and_its_driver(spark: SparkSession, tmp_path: Path, name_node: str) -> None:
    check_survives(spark, tmp_path, f"{name_node}/a query")


def test_a_savepoint_on_hdfs(name_node: str) -> None:
    """All that a tree of files is asked for, and the words of a name node that refuses."""
    tree = Tree(f"{name_node}/tree")
    tree.write("in/one", b"1" * 100_000)
    other = Tree(f"{name_node}/other")
    assert not other.share("in/one", tree)
    assert other.read("in/one") == tree.read("in/one")
    assert (other.below(), other.folders()) == (["in/one"], ["in"])
    assert [other.has(path) for path in ("in/one", "in/two")] == [True, False]
    with pytest.raises(CheckpointError, match=r"tree/in/one/two cannot be reached: [^\n]+$"):
        tree.write("in/one/two", b"a file is no folder")
    tree.delete_file("in/one")
    tree.delete()
    assert tree.below() == []
    assert obstacle_of(f"{name_node}/50% of 1") is None
    assert "takes '#' in a path for the end of it" in str(obstacle_of(f"{name_node}/of#1"))
