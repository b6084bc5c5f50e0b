"""Log files by `io.pyslash.logs`: on a local disk those that Spark leaves, elsewhere written by Spark."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import pyslash
from pyslash.errors import RowBridgeUnavailableError
from pyslash.spark import log_files
from tests.support.log_files import manager, nobodys_choice

SIZES = (0, 1, 511, 512, 513, 65_536, 65_537, 200_000)


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    """An application with pyslash whose log files are nobody's choice."""
    with nobodys_choice(spark):
        yield spark


class Managers:
    """Makes managers of log files."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm

    def path(self, *parts: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path("/".join(parts))

    def make(self, location: str, kind: str, **settings: str) -> Any:
        """As Spark makes one of this kind, `ours` or `Spark's`, for a location."""
        spelled = {name.replace("__", "-").replace("_", "."): value for name, value in settings.items()}
        return manager(self._spark, location, kind, spelled)

    def hadoop(self) -> Any:
        return self._jvm.org.apache.hadoop.conf.Configuration(self._spark._jsc.hadoopConfiguration())

    def bytes_of(self, manager: Any, *parts: str) -> bytes:
        stream = manager.open(self.path(*parts))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()


@pytest.fixture
def managers(enabled: SparkSession) -> Managers:
    return Managers(enabled)


def write(managers: Managers, manager: Any, content: bytes, *parts: str, overwrite: bool = False, cut: int = 7) -> None:
    """In two pieces, as logs are."""
    stream = manager.createAtomic(managers.path(*parts), overwrite)
    stream.write(bytearray(content[:cut]))
    stream.flush()
    stream.write(bytearray(content[cut:]))
    stream.close()


def tree(root: Path) -> dict[str, tuple[int, bytes | None]]:
    """All that is below: permissions and content. What is named at random goes by one name."""
    return {
        re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", str(path.relative_to(root))): (
            stat.S_IMODE(path.stat().st_mode),
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(root.rglob("*"))
    }


def outcome(act: Any) -> str:
    """The class of what is thrown; else nothing."""
    try:
        act()
    except Py4JJavaError as error:
        return str(error.java_exception.getClass().getName())
    return ""


def session_of_a_log(managers: Managers, root: Path, kind: str, **settings: str) -> list[Any]:
    """All that Spark does with a manager, and what came of each."""
    place = f"file:{root}"
    manager = managers.make(place, kind, **settings)
    path = managers.path
    seen: list[Any] = [str(manager.createCheckpointDirectory()).replace(str(root), "")]
    manager.mkdirs(path(place, "state", "0", "1"))
    manager.mkdirs(path(place, "state", "0", "1"))
    for size in SIZES:
        content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
        write(managers, manager, content, place, str(size))
        seen.append(managers.bytes_of(manager, place, str(size)) == content)
    seen += [
        outcome(lambda: write(managers, manager, b"the second", place, "512")),
        outcome(lambda: write(managers, manager, b"written over", place, "513", overwrite=True)),
        outcome(lambda: write(managers, manager, b"an orphan", place, "no such folder", "1")),
        outcome(lambda: manager.mkdirs(path(place, "0", "below a file"))),
        outcome(lambda: managers.bytes_of(manager, place, "nothing")),
    ]
    cancelled = manager.createAtomic(path(place, "cancelled"), False)
    cancelled.write(bytearray(b"not to be seen"))
    cancelled.cancel()
    cancelled.close()
    manager.delete(path(place, "1"))
    manager.delete(path(place, "1"))
    names = sorted(str(found.getPath().getName()) for found in manager.list(path(place)))
    seen.append([name for name in names if not name.endswith(".tmp")])
    return [*seen, manager.exists(path(place, "511")), manager.exists(path(place, "1")), manager.isLocal()]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"fs_permissions_umask__mode": "077"},
        {"fs_AbstractFileSystem_file_impl": "org.apache.hadoop.fs.local.RawLocalFs"},
    ],
)
def test_the_files_are_those_that_spark_leaves(managers: Managers, tmp_path: Path, settings: dict[str, str]) -> None:
    spark, ours = tmp_path / "spark" / "log", tmp_path / "ours" / "log"
    expected = session_of_a_log(managers, spark, "Spark's", **settings)
    found = session_of_a_log(managers, ours, "ours", **settings)
    assert str(managers.make(f"file:{ours}", "ours", **settings)) == "local files without forks"
    assert found == expected
    assert "org.apache.hadoop.fs.FileAlreadyExistsException" in expected
    assert tree(ours) == tree(spark)


@pytest.mark.parametrize("overwrite", [False, True])
def test_checksums_that_outlived_their_file_are_forgotten(managers: Managers, tmp_path: Path, overwrite: bool) -> None:
    place = f"file:{tmp_path}"
    ours, spark = (managers.make(place, kind) for kind in ("ours", "Spark's"))
    write(managers, spark, b"of plain Spark", place, "7")
    (tmp_path / "7").unlink()  # by hand; Spark's own manager would now write a file that nobody can read
    write(managers, ours, b"of ours", place, "7", overwrite=overwrite)
    assert managers.bytes_of(spark, place, "7") == b"of ours"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".7.crc", "7"]


def test_a_damaged_file_is_found_out(managers: Managers, tmp_path: Path) -> None:
    place = f"file:{tmp_path}"
    ours = managers.make(place, "ours")
    write(managers, ours, b"offsets" * 1000, place, "7")
    with (tmp_path / "7").open("r+b") as file:
        file.seek(3000)
        file.write(b"!")
    path = managers.path(place, "7")
    files = path.getFileSystem(managers.hadoop())
    assert outcome(lambda: files.open(path).readFully(bytearray(7000))) == "org.apache.hadoop.fs.ChecksumException"


def test_two_writers_of_one_name_are_told_apart(managers: Managers, tmp_path: Path) -> None:
    def attempt(number: int) -> str:
        manager = managers.make(f"file:{tmp_path}", "ours")
        return outcome(lambda: write(managers, manager, b"%d" % number, f"file:{tmp_path}", "7"))

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(attempt, range(16)))
    assert outcomes.count("") == 1
    assert set(outcomes) == {"", "org.apache.hadoop.fs.FileAlreadyExistsException"}
    assert (tmp_path / "7").read_text() == str(outcomes.index(""))


@pytest.mark.parametrize(
    ("location", "settings"),
    [
        ("hdfs://localhost:1/log", {}),
        ("viewfs://none/log", {"fs_viewfs_mounttable_none_link_/log": "file:/tmp"}),
        ("file:/tmp", {"spark_slash_logs": "spark"}),
        ("file:/tmp", {"spark_slash_mode": "off"}),
    ],
)
def test_all_else_is_sparks(managers: Managers, location: str, settings: dict[str, str]) -> None:
    spark = managers.make(location, "Spark's", **settings)
    assert str(managers.make(location, "ours", **settings)) == spark.getClass().getName()


def test_a_location_without_a_scheme_is_where_hadoop_says(managers: Managers) -> None:
    assert str(managers.make("/tmp", "ours")) == "local files without forks"
    settings = {"fs_defaultFS": "hdfs://localhost:1"}
    assert "FileContextBased" in str(managers.make("/tmp", "ours", **settings))


def test_what_spark_cannot_reach_is_sparks_to_refuse(managers: Managers) -> None:
    def exists(kind: str) -> None:
        managers.make("s4://bucket/log", kind).exists(managers.path("s4://bucket/log/0"))

    assert outcome(lambda: exists("ours")) == outcome(lambda: exists("Spark's")) != ""


def test_disable_leaves_the_files_to_spark_and_a_manager_of_the_user_stays(enabled: SparkSession) -> None:
    hadoop = enabled._jsc.hadoopConfiguration()
    assert hadoop.get(log_files.MANAGER) in log_files._CLASSES
    pyslash.disable()
    assert hadoop.get(log_files.MANAGER) is None
    hadoop.set(log_files.MANAGER, "their.Manager")
    try:
        pyslash.enable(enabled)
        assert hadoop.get(log_files.MANAGER) == "their.Manager"
        pyslash.disable()
        assert hadoop.get(log_files.MANAGER) == "their.Manager"
    finally:
        hadoop.unset(log_files.MANAGER)


def test_every_thread_finds_the_class(enabled: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    enabled.range(5).write.mode("overwrite").parquet(str(tmp_path / "in"))
    rows = enabled.readStream.schema("id long").parquet(str(tmp_path / "in"))
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "log"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    with ThreadPoolExecutor(1) as thread:  # the sink's log is read by a thread of the JVM that has run nothing yet
        assert thread.submit(lambda: enabled.read.parquet(str(tmp_path / "out")).count()).result() == 5


@pytest.mark.parametrize("lacking", ["the jar", "the interface"])
def test_without_the_class_spark_writes_its_files(
    enabled: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    pyslash.disable()
    if lacking == "the jar":

        def jar_path(name: str) -> Path:
            raise RowBridgeUnavailableError(name)

        monkeypatch.setattr(log_files, "jar_path", jar_path)
    else:
        monkeypatch.setattr(log_files, "_CLASSES", ("io.pyslash.logs.spark50.CheckpointFiles",))
    pyslash.enable(enabled)
    assert enabled._jsc.hadoopConfiguration().get(log_files.MANAGER) is None
    query = enabled.readStream.format("rate").load().writeStream.format("noop").trigger(once=True)
    started = query.option("checkpointLocation", str(tmp_path)).start()
    started.awaitTermination()
    assert started.exception() is None
