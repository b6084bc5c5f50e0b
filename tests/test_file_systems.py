"""pyslash/file_systems.py: which locations pyarrow can write to, told before a query starts."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow.fs as fs
import pytest
from pyspark.sql import SparkSession

from eval.object_store import BUCKET
from pyslash import file_systems
from pyslash.file_systems import obstacle_of, open_location
from pyslash.state.files.checkpoint_files import checkpoint_files
from pyslash.state.files.directory import BlockDirectory
from tests.support.s3_server import s3_server


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, s3_server(patch) as location:
        yield location


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_local_folder_has_no_obstacle_and_is_left_alone(tmp_path: Path, scheme: str) -> None:
    assert obstacle_of(f"{scheme}{tmp_path}/not there yet") is None
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_is_written_to_and_keeps_nothing_of_it(bucket: str) -> None:
    assert obstacle_of(f"{bucket}/50% of #1/Größe") is None
    held = boto3.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])
    assert [found["Key"] for found in held if "probe" in found["Key"]] == []


def test_a_bucket_that_is_not_there_is_an_obstacle(bucket: str) -> None:
    location = f"{bucket}-of-others/checkpoint"
    assert f"pyarrow cannot write to {location}: " in str(obstacle_of(location))


@pytest.mark.parametrize("location", ["webhdfs://host:1/c", "wasbs://a@b.example/c", "dbfs:/c", "oss://b/c", "x:y"])
def test_a_scheme_that_only_hadoop_knows_is_an_obstacle(location: str) -> None:
    assert f"pyarrow cannot write to {location}: " in str(obstacle_of(location))


def test_a_library_that_is_missing_is_an_obstacle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither of the clients of HDFS is there."""
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    assert re.search(
        "Unable to load lib.*; `pip install hdfs-native fsspec` beside every pyslash$",
        str(obstacle_of("hdfs://namenode.example:8020/checkpoint")),
    )


@pytest.mark.parametrize(
    ("authority", "where"),
    [
        ("host:8020", ("host", 8020)),
        ("host", ("host",)),
        ("", (None,)),
        ("[::1]:8020", ("[::1]", 8020)),
        ("[fe80::2]", ("[fe80::2]",)),
    ],
)
def test_a_name_node_has_any_address(monkeypatch: pytest.MonkeyPatch, authority: str, where: tuple[Any, ...]) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(file_systems, "_hdfs_native", lambda _: lambda *told: asked.append(told))
    _, path = open_location(f"hdfs://{authority}/a/checkpoint")
    assert (asked, path) == ([where], "/a/checkpoint")


def test_a_store_that_does_not_answer_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def open_never(_: str) -> Any:
        asked.wait()
        raise OSError

    monkeypatch.setattr(file_systems, "open_location", open_never)
    assert obstacle_of("gs://bucket/checkpoint", timeout_seconds=0.01) == (
        "pyarrow has no answer from gs://bucket/checkpoint after 0.01 s"
    )
    asked.set()


def test_a_mount_table_that_only_hadoop_has(spark: SparkSession, tmp_path: Path) -> None:
    """Spark writes its checkpoint by viewfs; pyarrow finds no such place."""
    (tmp_path / "stored").mkdir()
    spark.conf.set("fs.viewfs.mounttable.tests.link./c", f"file://{tmp_path}/stored")
    try:
        files = checkpoint_files(spark, "viewfs://tests/c/query", "slash")
        files.create("7", b"seven")
    finally:
        spark.conf.unset("fs.viewfs.mounttable.tests.link./c")
    assert (tmp_path / "stored" / "query" / "slash" / "7").read_bytes() == b"seven"
    assert "pyarrow cannot write to viewfs://tests/c/query: " in str(obstacle_of("viewfs://tests/c/query"))


@pytest.mark.parametrize("name", ["50% of #1", "a%20b+c", "what? [1]{2}*", "Größe 東京"])
def test_block_files_lie_where_the_path_says(tmp_path: Path, name: str) -> None:
    files, root = open_location(f"file:{tmp_path}/{name}")
    assert isinstance(files, fs.LocalFileSystem)
    assert root == f"{tmp_path}/{name}"
    BlockDirectory(f"file:{tmp_path}/{name}").write("0-1-a.arrow", lambda file: file.write(b"bytes"))
    assert (tmp_path / name / "0-1-a.arrow").read_bytes() == b"bytes"
