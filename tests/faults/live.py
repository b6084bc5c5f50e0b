"""The application of the soak: the Yahoo benchmark's query over files that keep coming, until it is told to finish.

python -m tests.faults.live MASTER EXECUTORS FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

import pyslash
from eval.workloads.ysb import Ysb
from pyslash.state import durable
from tests.faults.application import keep, session
from tests.faults.replay import keep_offsets

WORKLOAD = Ysb(campaigns=50)
FILES_A_BATCH = 8
MOST_ENDS = 100


def main(master: str, executors: int, folder: Path) -> None:
    """Runs until `folder/finish` is there and every file has been read; `progress.json` tells how it stands."""
    durable.KEPT_SECONDS = 0  # so that half a minute tells whether the number of files grows
    spark = session(master, executors, {"spark.slash.mode": "require", "spark.slash.agent.callTimeout": "3"})
    schema = spark.read.parquet(str(folder / "in")).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_A_BATCH).parquet(str(folder / "in"))
    result = WORKLOAD.query(spark, rows, folder)
    out = folder / "out"
    out.mkdir(exist_ok=True)
    checkpoint = folder / "checkpoint"

    def sink(batch: DataFrame, epoch: int) -> None:
        keep_offsets(checkpoint, folder / "offsets", epoch)
        keep(out, batch, epoch)

    def started() -> StreamingQuery:
        return result.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(sink).start()

    query = started()
    recoveries: dict[int, int] = {}

    def tell() -> None:
        epochs = pyslash.progress(query)
        recoveries.update((one["epoch"], one["recoveries"]) for one in epochs)
        if epochs:
            told = {"epoch": epochs[-1]["epoch"], "arena": epochs[-1]["pinned_bytes"]}
            hidden = folder / "progress.new"
            hidden.write_text(json.dumps({**told, "recoveries": sum(recoveries.values())}))
            hidden.rename(folder / "progress.json")

    ended = 0
    while True:
        try:
            if (folder / "finish").exists():
                query.processAllAvailable()
                break
            if query.awaitTermination(0.5):
                raise RuntimeError("the query has ended by itself")
        except StreamingQueryException as error:
            # An agent that dies while the job's function reads its rows ends the query: the function is called once.
            ended += 1
            if ended > MOST_ENDS:
                raise
            print(f"started again: {error}", file=sys.stderr, flush=True)
            query = started()
        tell()
    tell()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
