"""What lies in folders that Spark's own Hadoop reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyslash.state.files.hadoop_files import HadoopFiles

NAMES = {"0", "1.compact", "a,b}", "epoch=3", "with a blank, and [more]"}


def test_names_are_those_of_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / "in, here" / name).mkdir(parents=True)
    files = HadoopFiles(spark, str(tmp_path))
    assert files.qualified == f"file:{tmp_path}"
    assert {*files.names("in, here")} == {*HadoopFiles(spark, f"{tmp_path}/in, here").names()} == NAMES
    assert files.names("in, here/0") == files.names("nowhere") == []


def test_what_is_deleted_is_gone_and_what_is_not_there_is_no_silence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "folder/below").mkdir(parents=True)
    files = HadoopFiles(spark, str(tmp_path))
    assert files.exists("folder/below")
    files.delete("folder")
    assert not files.exists("folder")
    with pytest.raises(OSError, match="folder is not deleted"):
        files.delete("folder")
