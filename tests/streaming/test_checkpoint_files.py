"""Files of a checkpoint, directly and by Spark: the same promises."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyslash.streaming.checkpoint_files import CheckpointFiles, LocalFiles, SparkFiles, checkpoint_files


@pytest.fixture(params=["local", "spark"])
def files(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> CheckpointFiles:
    if request.param == "local":  # a path with what a URI would quote
        return checkpoint_files(spark, f"file:{tmp_path}/50% of #1", "slash/manifests")
    return SparkFiles(spark, f"file:{tmp_path}/by spark", "slash/manifests")


def test_a_local_checkpoint_is_reached_directly(spark: SparkSession, tmp_path: Path) -> None:
    assert isinstance(checkpoint_files(spark, f"file:{tmp_path}", "slash"), LocalFiles)
    assert (tmp_path / "slash").is_dir()


def test_files_come_back_by_their_names(files: CheckpointFiles) -> None:
    assert files.names() == []
    assert files.read("7") is None
    files.create("7", b"seven")
    files.create("8", b"")
    assert sorted(files.names()) == ["7", "8"]
    assert (files.read("7"), files.read("8")) == (b"seven", b"")
    files.delete("7")
    files.delete("7")
    assert files.names() == ["8"]


def test_a_name_is_given_once(files: CheckpointFiles) -> None:
    files.create("7", b"first")
    with pytest.raises(FileExistsError):
        files.create("7", b"second")
    assert files.read("7") == b"first"


def test_of_many_who_create_a_file_one_succeeds(tmp_path: Path) -> None:
    files, won = LocalFiles(tmp_path), []

    def create(content: bytes) -> None:
        try:
            files.create("7", content)
            won.append(content)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=create, args=(bytes([i]) * 5000,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [files.read("7")] == won
    assert [path.name for path in tmp_path.iterdir()] == ["7"]
