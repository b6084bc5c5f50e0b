"""A driver that dies while it writes a log file, at each step: plain Spark and pyslash both go on from what is left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.spark import log_files
from pyslash.spark.jvm_bridge import jar_path
from tests.support.log_files import manager, nobodys_choice

SOURCE = Path(__file__).parents[1] / "support" / "WriteLog.java"
JARS = Path(pyspark.__file__).parent / "jars"
CLASS = log_files._CLASSES[pyspark.__version__.startswith("4.0")]
NOTHING_YET, SUMS_YET, COMPLETE = {"part"}, {"whole", "sums of the part"}, {"whole", "sums"}
# The step, the system call that kills the process there, and what is left of the file.
STEPS = {
    "partly": (None, NOTHING_YET),
    "before the disk has it": ("fsync:signal=KILL:when=1", NOTHING_YET),
    "before it has its name": ("link:signal=KILL", {"part", "sums of the part"}),
    "under two names": ("unlink:signal=KILL", {"part", "whole", "sums of the part"}),
    "before its checksums": ("rename:signal=KILL", SUMS_YET),
    "before the disk has its name": ("fsync:signal=KILL:when=2", COMPLETE),
}
HAS_STRACE = (
    shutil.which("strace") is not None
    and not subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode
)
needs_strace = pytest.mark.skipif(not HAS_STRACE, reason="strace is missing, or may trace nothing here")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A class path with `WriteLog`."""
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "--release", "17", "-cp", f"{JARS}/*", "-d", folder, SOURCE], check=True)
    return f"{folder}:{jar_path('pyslash.logs.jar')}:{JARS}/*"


def die(spark: SparkSession, classes: str, step: str, folder: Path, name: str, content: Path) -> None:
    """Begin to write a file, and end at a step: in a process that dies, or in this one, which leaves the file open."""
    call, _ = STEPS[step]
    if call is None:
        files, path = manager_of(spark, folder, name, ours=True)
        stream = files.createAtomic(path, False)
        stream.write(bytearray(content.read_bytes()[: content.stat().st_size // 2]))
        stream.flush()
        return
    java = ["java", "-XX:-UsePerfData", "-cp", classes, "io.pyslash.tests.WriteLog"]
    traced = ["strace", "-f", "-qq", "-o", "/dev/null", f"-etrace={call.split(':')[0]}", f"-einject={call}"]
    command = [*traced, *java, CLASS, str(folder), name, str(content)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0, done.stderr[-2000:]


def left_of(folder: Path, name: str = "7") -> set[str]:
    """What there is of a file, by what it is."""
    kinds = {name: "whole", f".{name}.crc": "sums"}
    found = set()
    for path in folder.iterdir():
        temporary = re.fullmatch(rf"\.?\.{name}\.[0-9a-f-]{{36}}\.tmp(\.crc)?", path.name)
        found.add(kinds.get(path.name) or {None: "part", ".crc": "sums of the part"}[temporary[1]])  # type: ignore[index]
    return found


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    """With pyslash, whose log files are nobody's choice."""
    with nobodys_choice(spark):
        yield spark


def manager_of(spark: SparkSession, folder: Path, name: str, ours: bool) -> tuple[Any, Any]:
    """A manager and the path of its file."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"file:{folder}/{name}")
    return manager(spark, f"file:{folder}", "ours" if ours else "Spark's"), path


@needs_strace
@pytest.mark.parametrize("step", STEPS)
def test_a_file_is_there_whole_or_not_at_all(enabled: SparkSession, classes: str, tmp_path: Path, step: str) -> None:
    content = tmp_path / "content"
    content.write_bytes(os.urandom(300_000))
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    die(enabled, classes, step, crashed, "7", content)
    assert left_of(crashed) == STEPS[step][1]
    toByteArray = enabled._jvm.org.apache.commons.io.IOUtils.toByteArray  # type: ignore[union-attr]
    for ours in (False, True):
        folder = tmp_path / f"again-{ours}"
        shutil.copytree(crashed, folder)
        files, path = manager_of(enabled, folder, "7", ours)
        assert files.exists(path) == ("whole" in STEPS[step][1])
        listed = {str(found.getPath().getName()) for found in files.list(path.getParent())}
        assert ("7" in listed) == ("whole" in STEPS[step][1])
        if not files.exists(path):
            stream = files.createAtomic(path, False)
            stream.write(bytearray(content.read_bytes()))
            stream.close()
        assert bytes(toByteArray(files.open(path))) == content.read_bytes()


def counts(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("ts", "0 seconds").groupBy(F.window("ts", "10 seconds"), "k").count()


def run(spark: SparkSession, folder: Path, mode: str, got: dict[int, list[Any]]) -> None:
    """All micro-batches that are left to run, into a sink that keeps a batch under its number."""
    rows = spark.readStream.schema("ts timestamp, k long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    spark.conf.set("spark.slash.mode", mode)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    try:
        writer = counts(rows).writeStream.foreachBatch(lambda batch, number: got.update({number: batch.collect()}))
        query = writer.option("checkpointLocation", str(folder / "log")).trigger(availableNow=True).start()
        query.awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
        spark.conf.unset("spark.slash.mode")


def add_file(spark: SparkSession, folder: Path, number: int) -> None:
    at = F.timestamp_seconds(F.col("id") + 1_000_000_000 + 30 * number)
    rows = spark.range(40).select(at.alias("ts"), (F.col("id") % 3).alias("k"))
    rows.coalesce(1).write.mode("append").parquet(str(folder / "in"))


@dataclass(frozen=True)
class Finished:
    """A query of three micro-batches: its checkpoint after two of them, and at the end."""

    folder: Path
    mode: str
    before: Path
    end: Path
    results: dict[int, list[Any]]


@pytest.fixture(scope="module", params=["require", "off"])
def finished(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """On pyslash, or on plain Spark."""
    folder = tmp_path_factory.mktemp("finished")
    query = Finished(folder, request.param, folder / "before", folder / "end", {})
    pyslash.enable(spark)
    for numbers, kept in (((0, 1), query.before), ((2,), query.end)):
        for number in numbers:
            add_file(spark, folder, number)
        run(spark, folder, query.mode, query.results)
        shutil.copytree(folder / "log", kept)
    pyslash.disable()
    return query


@needs_strace
@pytest.mark.parametrize(
    ("log", "step"), [("offsets", "partly"), ("offsets", "before its checksums"), ("commits", "under two names")]
)
def test_a_query_goes_on(
    enabled: SparkSession, finished: Finished, classes: str, tmp_path: Path, log: str, step: str
) -> None:
    checkpoint = finished.folder / "log"  # the place that it names itself
    shutil.rmtree(checkpoint)
    if log == "offsets":
        shutil.copytree(finished.before, checkpoint)
        shutil.copytree(finished.end / "sources", checkpoint / "sources", dirs_exist_ok=True)
    else:
        shutil.copytree(finished.end, checkpoint)
        (checkpoint / "commits" / "2").unlink()
        (checkpoint / "commits" / ".2.crc").unlink()
    die(enabled, classes, step, checkpoint / log, "2", finished.end / log / "2")
    results: dict[int, list[Any]] = {}
    run(enabled, finished.folder, finished.mode, results)
    assert set(results) == ({2} if log == "offsets" else set())
    assert {**finished.results, **results} == finished.results
    assert (checkpoint / "commits" / "2").read_bytes() == (finished.end / "commits" / "2").read_bytes()
