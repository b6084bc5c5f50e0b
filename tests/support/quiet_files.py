"""A local file system that forks no processes: half of what a small micro-batch takes is spent in forking them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("QuietFileSystem.java")
_CLASSES = Path(__file__).parents[2] / "build" / "quiet_files"
_ROOT = "file:///"


_PACKAGE = "" if pyspark.__version__.startswith("4.0") else "checkpointing."
_MANAGER = f"org.apache.spark.sql.execution.streaming.{_PACKAGE}FileSystemBasedCheckpointFileManager"

SETTINGS = {"spark.sql.streaming.checkpointFileManagerClass": _MANAGER}
"""Of an application that is to use it: Spark's other manager of checkpoints goes past Hadoop's file systems."""


@contextmanager
def quiet_files(spark: SparkSession) -> Iterator[None]:
    """Let the application use `QuietFileSystem` for local files.

    Hadoop keeps one file system object for a scheme: it is enough to be the first who asks for it, and the class need
    not be on the JVM's class path.
    """
    jvm: Any = spark._jvm
    root = jvm.java.net.URI(_ROOT)
    conf = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.net.URL(f"{_compiled().as_uri()}/")
    conf.setClassLoader(jvm.java.net.URLClassLoader(urls, conf.getClassLoader()))
    conf.set("fs.file.impl", "io.pyslash.tests.QuietFileSystem")
    files = jvm.org.apache.hadoop.fs.FileSystem
    files.get(root, conf).close()
    quiet = files.get(root, conf)
    assert quiet.getClass().getSimpleName() == "QuietFileSystem"
    try:
        yield
    finally:
        quiet.close()


def _compiled() -> Path:
    """The folder of the classes; made by whichever process comes first."""
    folder = _CLASSES / hashlib.sha256(_SOURCE.read_bytes()).hexdigest()
    if not folder.exists():
        jars = Path(pyspark.__file__).parent / "jars"
        _CLASSES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CLASSES, ignore_cleanup_errors=True) as made:
            subprocess.run(["javac", "--release", "17", "-cp", f"{jars}/*", "-d", made, _SOURCE], check=True)
            with suppress(OSError):  # another process was faster
                os.rename(made, folder)
    return folder
