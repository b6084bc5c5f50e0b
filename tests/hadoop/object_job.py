"""What a manager of Spark's log files does in an object store: `LOCATION`. Says it as JSON, and ends."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

import pyslash
from pyslash.state.files.checkpoint_files import SparkFiles
from tests.driver.plugin_job import SETTINGS
from tests.hadoop.store_job import s3_settings


def main(location: str) -> None:
    spark = SparkSession.builder.config(map=SETTINGS | s3_settings()).getOrCreate()
    pyslash.enable(spark)
    files = SparkFiles(spark, location, "log")
    files.create("0", b"first")
    taken = False
    try:
        files.create("0", b"second")
    except FileExistsError:
        taken = True
    manager: Any = files._files
    cancelled = manager.createAtomic(files._path("1"), False)
    cancelled.write(bytearray(b"never"))
    cancelled.cancel()
    over = manager.createAtomic(files._path("2"), True)
    over.write(bytearray(b"old"))
    over.close()
    again = manager.createAtomic(files._path("2"), True)
    again.write(bytearray(b"new"))
    again.close()
    found = {name: (files.read(name) or b"").decode() for name in files.names()}
    print(json.dumps({"manager": manager.toString(), "taken": taken, "found": found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
