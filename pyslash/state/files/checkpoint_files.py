"""Small files of a checkpoint, each created exclusively and seen whole or not at all.

A local disk is reached directly: by way of Hadoop, which has no native library in a PySpark from a package, each file
costs a forked `chmod`. Any other file system, and a local one on which nothing creates a file in one step, is reached
by the `CheckpointFileManager` that Spark uses for its own offset log, with the credentials that Spark already has.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pyslash.errors import StateLostError
from pyslash.file_systems import sync
from pyslash.state.files.exclusive import Publish, by_link, publish_in

logger = logging.getLogger("pyslash")


class CheckpointFiles(Protocol):
    """The files of one folder, by their names. Every method may raise OSError: the file system cannot be reached."""

    def path(self, name: str) -> str:
        """Where a file is, for messages."""

    def names(self) -> list[str]:
        """The names of all complete files, in any order."""

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is no such file."""

    def create(self, name: str, content: bytes) -> None:
        """Write a file.

        Raises:
            FileExistsError: it exists.
        """

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""


def checkpoint_files(spark: SparkSession, checkpoint: str, folder: str) -> CheckpointFiles:
    """The files in `folder` of a checkpoint location (a Hadoop path). Creates the folder.

    Raises:
        OSError: no file can be written there.
    """
    if (path := _local(checkpoint, folder)) is not None:
        path.mkdir(parents=True, exist_ok=True)
        if publish := publish_in(path):
            return LocalFiles(path, publish)
        logger.info("%s has neither hard links nor an exclusive rename: Spark creates the files there", path)
    files = SparkFiles(spark, checkpoint, folder)
    files.make_folder()
    return files


def files_of_spark(spark: SparkSession, checkpoint: str, folder: str) -> CheckpointFiles:
    """The files that Spark writes to `folder` of a checkpoint location (a Hadoop path), to be read alone.

    Raises:
        OSError: the folder cannot be reached.
    """
    path = _local(checkpoint, folder)
    return SparkFiles(spark, checkpoint, folder) if path is None else LocalFiles(path)


def _local(checkpoint: str, folder: str) -> Path | None:
    """The folder, if it is on this host."""
    # Hadoop writes its paths without quoting.
    local = re.fullmatch(r"file:(?://)?(/.*)", checkpoint, re.DOTALL)
    return Path(local.group(1)) / folder if local else None


class LocalFiles:
    """A folder of this host."""

    def __init__(self, folder: Path, publish: Publish = by_link) -> None:
        """Creates the folder. `publish` is the way of `exclusive` that its file system supports."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._publish = publish

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def names(self) -> list[str]:
        return [entry.name for entry in os.scandir(self._folder) if not entry.name.startswith(".") and entry.is_file()]

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> None:
        hidden = self._folder / f".{name}.{uuid4().hex}"
        try:
            with hidden.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self._publish(hidden, self._folder / name)
        finally:
            hidden.unlink(missing_ok=True)
        sync(self._folder)

    def delete(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


class SparkFiles:
    """A folder on a file system that Hadoop reaches."""

    def __init__(self, spark: SparkSession, checkpoint: str, folder: str) -> None:
        jvm: Any = spark._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._streams = jvm.org.apache.commons.io.IOUtils
        self._root = self._path_class(checkpoint, folder)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = _file_manager(jvm).create(self._root, configuration)

    def make_folder(self) -> None:
        """Make it, unless it is there."""
        if not self._files.exists(self._root):
            self._files.mkdirs(self._root)

    def path(self, name: str) -> str:
        return str(self._path(name))

    def names(self) -> list[str]:
        found: list[str] = []
        with suppress(FileNotFoundError), _as_os_error():
            found = [str(status.getPath().getName()) for status in self._files.list(self._root)]
        return [name for name in found if not name.startswith(".")]

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError), _as_os_error():
            stream = self._files.open(self._path(name))
            try:
                return bytes(self._streams.toByteArray(stream))
            finally:
                stream.close()
        return None

    def create(self, name: str, content: bytes) -> None:
        with _as_os_error():
            stream = self._files.createAtomic(self._path(name), False)
            try:
                stream.write(bytearray(content))
                stream.close()
            except Exception:
                stream.cancel()
                raise

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError), _as_os_error():
            self._files.delete(self._path(name))

    def _path(self, name: str) -> Any:
        return self._path_class(self._root, name) if name else self._root  # Hadoop has no empty names


@contextmanager
def _as_os_error() -> Iterator[None]:
    """The JVM's exceptions as Python's own."""
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        name = str(cause.getClass().getName())
        if "FileAlreadyExistsException" in name:
            raise FileExistsError(str(cause.getMessage())) from error
        if "FileNotFoundException" in name:
            raise FileNotFoundError(str(cause.getMessage())) from error
        raise OSError(str(cause)) from error


def _file_manager(jvm: Any) -> Any:
    """Spark's `CheckpointFileManager` object; it has moved between 4.0 and 4.1."""
    streaming = jvm.org.apache.spark.sql.execution.streaming
    for package in (streaming.checkpointing, streaming):
        candidate = package.CheckpointFileManager
        if isinstance(candidate, JavaClass):  # py4j takes any other name for a package's
            return candidate
    raise StateLostError("this Spark has no CheckpointFileManager where pyslash knows to look for it")
