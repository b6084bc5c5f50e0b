"""An application that is meant to be struck: runs streams on pyslash one after the other, and can be started again.

    python -m tests.faults.application SPEC.json

The spec holds `master`, `executors`, `folder` (its `in` has the rows), `conf`, `inside` (the folder of `inside`, if
there is one), and `rounds`: each with a `name`, its `operator` (of `operators`), its `sinks` (`batch`, `files`, or
both), `conf` of spark.slash.* and `strikes` (`fault`, `point`), each an epoch after the other. A round's checkpoints
and rows lie in a folder of its own. `results.jsonl` gets a line at the start and one a round.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import pyslash
from pyslash.cluster import folds
from pyslash.operators.transform import steps as processors
from pyslash.spark.session import changed
from tests.faults.operators import OPERATORS
from tests.faults.points import Arm, update_and_strike
from tests.faults.strike import SINK_POINT, Strike
from tests.faults.tally import Row, plain
from tests.support.jvm import JAVA_OPTIONS, SMALL_PAGES
from tests.support.stream import Stream, seconds

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string()), ("v", pa.int64())])
OPERATOR = "windows, append"  # of rounds that name none
BATCHES, ROWS, KEYS = 6, 1000, 50
FIRST, LAST, DELAY, LATEST = 1000, 5000, 15, 45  # event times in seconds; rows are up to LATEST behind
FIRST_STRUCK = 2  # windows are open, others close, and earlier epochs are durable
DEADLINE_SECONDS = 600
EXECUTOR_SECONDS = 300


def write_input(spark: SparkSession, folder: Path, batches: int) -> Stream:
    """The rows of every round: windows stay open over several batches, some rows are late, and the last closes all."""
    stream = Stream(spark, folder, SCHEMA, delay_seconds=DELAY, rows_a_task=ROWS // 4)
    for batch in range(batches):
        behind = [i * 13 % LATEST if i % 9 == 0 else 0 for i in range(ROWS)]  # around both of Spark's watermarks
        table = {
            "ts": [seconds(FIRST + 7 * batch + i / ROWS * 10 - behind[i]) for i in range(ROWS)],
            "k": [i * 7 % KEYS for i in range(ROWS)],
            "s": [f"name {i % 11}" for i in range(ROWS)],
            "v": [batch * ROWS + i for i in range(ROWS)],
        }
        stream.add(pa.table(table, SCHEMA))
    stream.add(pa.table({"ts": [seconds(LAST)], "k": [0], "s": ["end"], "v": [0]}, SCHEMA))
    return stream


def expected(stream: Stream, operator: str) -> list[Row]:
    """What plain Spark's own streaming run over the same files emits, each row behind the number of its micro-batch."""
    given = OPERATORS[operator]
    with changed(stream.spark, given.of_spark):
        batches = stream.expected_batches(given.query, given.mode)
    return [(epoch, *plain(row)) for epoch, batch in enumerate(batches) for row in batch]


def session(master: str, executors: int, conf: dict[str, str]) -> SparkSession:
    """An application of so many executors of one core each, all there before the first job."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.files.maxPartitionBytes": "4k",  # several tasks a batch
        "spark.sql.streaming.fileSink.log.compactInterval": "1000",  # an epoch's files are in its own entry
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": str(executors),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.slash.arena.size": "64m",
        **SMALL_PAGES,
        **conf,
    }
    # The driver's JVM takes its options from the command that starts it.
    options = conf.get("spark.driver.extraJavaOptions", JAVA_OPTIONS)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "{options}" pyspark-shell'
    spark = SparkSession.builder.master(master).appName("pyslash faults").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    pyslash.enable(spark)
    return spark


def driver_pids(spark: SparkSession) -> tuple[int, int]:
    """The driver's JVM and its Python, which dies last."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid()), os.getpid()  # type: ignore[union-attr]


def keep(folder: Path, batch: DataFrame, epoch: int, before_commit: Callable[[], None] = lambda: None) -> None:
    """The batch sink: one file a batch id. A batch that comes again must bring the same rows."""
    text = json.dumps(sorted(plain(row) for row in batch.collect()))
    path = folder / f"{epoch:06d}.json"
    if path.exists() and path.read_text() != text:
        raise AssertionError(f"epoch {epoch} was emitted with other rows before")
    hidden = path.with_suffix(".new")
    hidden.write_text(text)
    before_commit()
    hidden.rename(path)


def kept(folder: Path) -> list[Row]:
    """What `keep` has written, each row behind the number of its micro-batch."""
    return [(int(path.stem), *row) for path in sorted(folder.glob("*.json")) for row in json.loads(path.read_text())]


def written(spark: SparkSession, folder: Path) -> list[Row]:
    """The same of Spark's sink of files."""
    epochs = {
        local_path(json.loads(line)["path"]): int(log.name)
        for log in (folder / "_spark_metadata").glob("[0-9]*")
        for line in log.read_text().splitlines()[1:]
    }
    rows = spark.read.parquet(*epochs)  # not the folder: this session would look for compact logs
    named = rows.select(F.col("_metadata.file_path"), *(F.col(f"`{name}`") for name in rows.columns))
    return [(epochs[local_path(path)], *plain(row)) for path, *row in named.collect()]


def local_path(uri: str) -> str:
    """The path of a local file's URI, however many slashes that has."""
    return "/" + unquote(uri).removeprefix("file:").lstrip("/")


def start(stream: Stream, folder: Path, given: dict[str, Any], sink: str, arm: Arm) -> StreamingQuery:
    operator = OPERATORS[given["operator"]]
    rows = stream.read()
    for strike in arm.strikes:
        if strike.point == "mid-update":
            rows = rows.withColumn("v", update_and_strike(strike, F.col("v"), strike.epoch * ROWS + ROWS // 2))
    result = operator.query(rows)
    out = folder / sink
    out.mkdir(parents=True, exist_ok=True)
    writer = result.writeStream.option("checkpointLocation", str(folder / f"checkpoint-{sink}"))
    writer = writer.outputMode(operator.mode).trigger(availableNow=True)
    if sink == "files":
        return writer.format("parquet").start(str(out))

    def write(batch: DataFrame, epoch: int) -> None:
        keep(out, batch, epoch, lambda: arm.reach(SINK_POINT, epoch))

    return writer.foreachBatch(write).start()


class Copies:
    """Copies of the checkpoints of a round, for strikes that put one back while the application lives on."""

    def __init__(self, folder: Path, strikes: Sequence[Strike]) -> None:
        self._folder = folder
        self._strikes = [strike for strike in strikes if strike.fault == "put back"]

    def take(self, epoch: int) -> None:
        """An epoch begins: Spark has logged its offsets, and the end of the one before."""
        if any(strike.epoch - 1 == epoch and not os.path.exists(strike.marker) for strike in self._strikes):
            for checkpoint in self._folder.glob("checkpoint-*"):
                copy = self._folder / f"copy of {checkpoint.name}"
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(checkpoint, copy)

    def put_back(self, sink: str) -> None:
        """In the place of the checkpoint, if such a strike has ended its query."""
        copy, checkpoint = self._folder / f"copy of checkpoint-{sink}", self._folder / f"checkpoint-{sink}"
        if copy.exists():
            shutil.rmtree(checkpoint)
            copy.rename(checkpoint)


def run_round(spark: SparkSession, stream: Stream, arm: Arm, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    """Run every sink's query to its end, starting those again that failed by the strike."""
    folder.mkdir(exist_ok=True)
    settings = {"spark.slash.mode": "require", **{f"spark.slash.{k}": v for k, v in given.get("conf", {}).items()}}
    settings |= OPERATORS[given["operator"]].of_spark
    for name, value in settings.items():
        spark.conf.set(name, value)
    arm.wait_for(
        [
            Strike(
                **strike, epoch=FIRST_STRUCK + index, marker=str(folder / f"struck-{index}"), driver=driver_pids(spark)
            )
            for index, strike in enumerate(given["strikes"])
        ]
    )
    copies = Copies(folder, arm.strikes)
    arm.epoch_begins = copies.take
    recoveries = late_rows = 0
    ended: list[str] = []
    running = {sink: start(stream, folder, given, sink, arm) for sink in given["sinks"]}
    while running:
        sink, query = next(iter(running.items()))
        try:
            if not query.awaitTermination(DEADLINE_SECONDS):
                raise TimeoutError(f"{given['name']}: {sink} still runs after {DEADLINE_SECONDS} s")
            del running[sink]
        except StreamingQueryException as error:
            # A job's own function is called once for an epoch in a run: what it meets is the query's error.
            if len(ended) == _struck(arm.strikes):
                raise
            ended.append(str(error))
            copies.put_back(sink)
            running[sink] = start(stream, folder, given, sink, arm)
        recoveries += sum(figures["recoveries"] for figures in pyslash.progress(query))
        late_rows += sum(figures["late_rows"] for figures in pyslash.progress(query))
    for name in settings:
        spark.conf.unset(name)
    missed = [strike.point for strike in arm.strikes if not Path(strike.marker).exists()]
    struck = len(arm.strikes) - len(missed)
    return {
        "round": given["name"],
        "recoveries": recoveries,
        "ended": ended,
        "late_rows": late_rows,
        "struck": struck,
        "missed": missed,
    }


def _struck(strikes: Sequence[Strike]) -> int:
    return sum(Path(strike.marker).exists() for strike in strikes)


def number_of_executors(spark: SparkSession) -> int:
    """Those that are there."""
    return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # type: ignore[no-any-return]


def wait_for_executors(spark: SparkSession, executors: int) -> None:
    """Until a killed one was replaced: without another executor, there is no standby.

    Raises:
        TimeoutError: it was not.
    """
    deadline = time.monotonic() + EXECUTOR_SECONDS
    while number_of_executors(spark) < executors:
        if time.monotonic() > deadline:
            raise TimeoutError(f"fewer than {executors} executors after {EXECUTOR_SECONDS} s")
        time.sleep(0.1)  # polling Spark, up to the deadline


def main(spec: dict[str, Any]) -> None:
    """Run the rounds that no earlier start of this application has finished."""
    folder = Path(spec["folder"])
    results = folder / "results.jsonl"
    done = {json.loads(line).get("round") for line in results.read_text().splitlines()} if results.exists() else set()

    def tell(record: dict[str, Any]) -> None:
        with results.open("a") as file:
            file.write(json.dumps(record) + "\n")

    spark = session(spec["master"], spec["executors"], spec.get("conf", {}))
    tell({"started": spec["executors"], "executors": number_of_executors(spark)})
    stream = Stream(spark, folder, SCHEMA, delay_seconds=DELAY)
    arm = Arm(Path(spec["inside"]) if spec.get("inside") else None)
    arm.install()
    # State of processors moves every few epochs, and agents fold what it has left behind; epochs are folded always.
    processors._FEWEST_ENTRIES, processors._MOST_REPLACED = 0, 2
    folds._WORTH_IT = math.inf
    for given in spec["rounds"]:
        if given["name"] not in done:
            wait_for_executors(spark, spec["executors"])
            tell(run_round(spark, stream, arm, folder / given["name"], given))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
