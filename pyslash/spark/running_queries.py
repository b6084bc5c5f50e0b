"""Which queries an application runs on pyslash, and where their checkpoints are: a file for each, beside the driver.

A process that Spark starts beside the driver to plan a read of `slash-state` has no JVM to ask.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyslash.errors import InvalidInputError

logger = logging.getLogger("pyslash")

_PROPERTY = "pyslash.queries"  # of Java: every Python of an application finds the same folder
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def folder_of(spark: SparkSession) -> Path:
    """The application's folder. It goes with the JVM. Of several that are made at once, one is everybody's."""
    jvm: Any = spark._jvm
    properties = jvm.java.lang.System.getProperties()
    found = properties.getProperty(_PROPERTY)
    if found is None:
        utils = jvm.org.apache.spark.util.Utils
        made = utils.createTempDir(utils.getLocalDir(spark.sparkContext._jsc.sc().conf()), "pyslash-queries")
        own = made.getAbsolutePath()
        found = properties.putIfAbsent(_PROPERTY, own) or own
    return Path(found)


def add(spark: SparkSession, query: StreamingQuery) -> None:
    """Let it be found by its id and by its name, also when it has ended. It runs, even if that cannot be written."""
    checkpoint = str(query._jsq.streamingQuery().resolvedCheckpointRoot())
    try:
        folder = folder_of(spark)
        hidden = folder / f".{uuid4().hex}"
        hidden.write_text(json.dumps({"name": query.name, "checkpoint": checkpoint}))
        hidden.rename(folder / str(query.id))
    except (OSError, Py4JJavaError) as error:
        logger.warning("no table of state finds this query by its name: %s", error)


def checkpoint_of(folder: Path, query: str) -> str:
    """That of a query by its id, or of the one of this name that was started last.

    Raises:
        InvalidInputError: the application has started no such query on pyslash.
    """
    files = [path for path in folder.iterdir() if _ID.fullmatch(path.name)]
    told = {path: json.loads(path.read_text()) for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)}
    found = [one for path, one in told.items() if query in (path.name, one["name"])]
    if not found:
        names = ", ".join(sorted(one["name"] or path.name for path, one in told.items())) or "none at all"
        raise InvalidInputError(f"this application has started no query {query!r} on pyslash, but {names}")
    return str(found[-1]["checkpoint"])
