"""Files of a checkpoint, directly and by Spark: the same promises."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyslash.state.files import exclusive
from pyslash.state.files.checkpoint_files import CheckpointFiles, LocalFiles, SparkFiles, checkpoint_files

# What a URI would quote, what looks as if it were quoted, what a shell or a glob reads, and other alphabets.
FOLDERS = ["plain", "50% of #1", "a%20b+c", "what? [1]{2}*", "Größe 東京", "e\u0301 \U0001f41f"]


@pytest.fixture(params=FOLDERS)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file:{tmp_path}/{request.param}"


@pytest.fixture(params=["local", "spark"])
def files(request: pytest.FixtureRequest, spark: SparkSession, checkpoint: str) -> CheckpointFiles:
    if request.param == "local":
        return checkpoint_files(spark, checkpoint, "slash/manifests")
    found = SparkFiles(spark, checkpoint, "slash/manifests")
    assert (found.names(), found.read("7")) == ([], None)  # where there is no folder, too
    found.make_folder()
    return found


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


def test_both_ways_reach_the_same_folder(spark: SparkSession, checkpoint: str) -> None:
    direct, by_spark = checkpoint_files(spark, checkpoint, "slash"), SparkFiles(spark, checkpoint, "slash")
    by_spark.create("7", b"seven")
    direct.create("8", b"eight")
    assert sorted(direct.names()) == sorted(by_spark.names()) == ["7", "8"]
    assert (direct.read("7"), by_spark.read("8")) == (b"seven", b"eight")
    assert Path(checkpoint.removeprefix("file:"), "slash", "7").is_file()
    assert by_spark.path("").removeprefix("file:") == direct.path("").removeprefix("file:")


def test_a_local_folder_without_exclusive_names_is_reached_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusive, "by_link", refuse)
    monkeypatch.setattr(exclusive, "by_rename", refuse)
    files = checkpoint_files(spark, f"file:{tmp_path}", "slash")
    assert isinstance(files, SparkFiles)
    files.create("7", b"first")
    with pytest.raises(FileExistsError):
        files.create("7", b"second")
    assert (tmp_path / "slash" / "7").read_bytes() == b"first"


def refuse(*_: object) -> None:
    """As a file system does that lacks the call."""
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
