"""A notebook without a line of pyslash, in Jupyter's own kernel: `test_notebook` runs it.

Its arguments: a source of rows, a folder, and Spark's settings as JSON. It prints a report as JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from typing import Any

from jupyter_client.manager import start_new_kernel

SECONDS = 600
WAITS = "it waits"
SESSION = """
import json
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.config(map={settings}).getOrCreate()
def stream(source):
    rows = spark.readStream.schema("ts timestamp, k long, v long").option("maxFilesPerTrigger", 1).parquet(source)
    windows = rows.withWatermark("ts", "0 seconds").groupBy(F.window("ts", "10 seconds"), "k")
    return windows.agg(F.sum("v").alias("s")).select("window.start", "k", "s").writeStream.outputMode("update")
"""
BATCHES = """
spark.conf.set("spark.slash.mode", {mode!r})
batches = {{}}
def take(rows, batch):
    batches[batch] = sorted(map(str, rows.collect()))
def start(source, checkpoint, **trigger):
    writer = stream(source).foreachBatch(take).option("checkpointLocation", checkpoint)
    return (writer.trigger(**trigger) if trigger else writer).start()
start({source!r}, {folder!r}, availableNow=True).awaitTermination()
print(json.dumps(batches))
"""
INTERRUPTED = """
query = start({source!r}, {folder!r})
query.processAllAvailable()
print({waits!r}, flush=True)
query.awaitTermination()
"""
AFTERWARDS = """
batches.clear()
query.processAllAvailable()
query.stop()
print(json.dumps(batches))
"""


def main(source: str, folder: str, settings: str) -> None:
    """Run its cells, on plain Spark and on pyslash."""
    manager, client = start_new_kernel()
    report: dict[str, Any] = {}

    def cell(code: str, heard: Callable[[str], None] = lambda _: None) -> tuple[str, str]:
        """What it prints, and the name of the error that it ends in."""
        printed: list[str] = []

        def hook(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                printed.append(message["content"]["text"])
                heard(printed[-1])

        content = client.execute_interactive(code, output_hook=hook, timeout=SECONDS)["content"]
        if content["status"] == "error" and content["ename"] != "KeyboardInterrupt":
            raise RuntimeError("\n".join(content["traceback"]))
        return "".join(printed), content.get("ename", "")

    def interrupt(text: str) -> None:
        if WAITS in text:
            manager.interrupt_kernel()

    try:
        cell(SESSION.format(settings=json.loads(settings)))
        for mode in ("off", "require"):
            batches, _ = cell(BATCHES.format(mode=mode, source=source, folder=f"{folder}/{mode}"))
            growing = shutil.copytree(source, f"{folder}/{mode}-source")
            _, error = cell(
                INTERRUPTED.format(waits=WAITS, source=growing, folder=f"{folder}/{mode}-interrupted"), interrupt
            )
            shutil.copy(f"{growing}/0002.parquet", f"{growing}/0003.parquet")
            more, _ = cell(AFTERWARDS)
            report[mode] = {"batches": json.loads(batches), "interrupted": error, "afterwards": json.loads(more)}
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
