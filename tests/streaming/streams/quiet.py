"""A local file system that forks no processes, for a JVM that writes hundreds of checkpoints."""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("QuietFileSystem.java")
_ROOT = "file:///"


@contextmanager
def quiet_files(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Let the application use `QuietFileSystem` for local files; gives the settings of sessions that are to.

    Hadoop keeps one file system object for a scheme: it is enough to be the first who asks for it, and the class need
    not be on the JVM's class path.
    """
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    jars = Path(found.origin).parent / "jars"
    jvm: Any = spark._jvm
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "--release", "17", "-cp", f"{jars}/*", "-d", classes, _SOURCE], check=True)
        root = jvm.java.net.URI(_ROOT)
        conf = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
        urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.net.URL(f"{Path(classes).as_uri()}/")
        conf.setClassLoader(jvm.java.net.URLClassLoader(urls, conf.getClassLoader()))
        conf.set("fs.file.impl", "io.pyslash.tests.QuietFileSystem")
        files = jvm.org.apache.hadoop.fs.FileSystem
        files.get(root, conf).close()
        quiet = files.get(root, conf)
        assert quiet.getClass().getSimpleName() == "QuietFileSystem"
        package = "" if spark.version.startswith("4.0") else "checkpointing."
        manager = f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
        try:
            yield {"spark.sql.streaming.checkpointFileManagerClass": manager}
        finally:
            quiet.close()
