"""A job that knows nothing of pyslash, and what it saw; `test_plugin` runs it in an application with the plugin.

python plugin_job.py INPUT FOLDER CASE...

A case is one of `CASES`; or one of `KILLS`, or "at " and a point of an epoch (`tests/faults/test_side_car.py`), where
the process beside the driver dies.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery, StreamingQueryListener

SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.slash.arena.size": "128m",
}
ORDER = "PYSLASH_TESTS_STRIKE"  # in the environment: the file with the strike of the process beside the driver
AT = "at "
Batches = dict[int, list[str]]


class Started(StreamingQueryListener):
    """The names of the queries that it was told of. Spark waits for it when a query starts."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.once: Callable[[], None] | None = None

    def onQueryStarted(self, event: Any) -> None:
        self.names.append(event.name)
        strike, self.once = self.once, None
        if strike is not None:
            strike()

    def onQueryProgress(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass


class Job:
    """The query of a case, on plain Spark or on pyslash."""

    def __init__(self, spark: SparkSession, source: str, folder: Path, mode: str, listener: Started) -> None:
        self.spark, self.source, self.folder, self.mode, self.listener = spark, source, folder, mode, listener
        self.out = str(folder / "out")
        self.seen: Batches = {}
        self.value = F.col("v")

    def counts(self, source: str = "") -> DataFrame:
        """Windows of a stream whose micro-batches are the files of its input."""
        reader = self.spark.readStream.schema("ts timestamp, k long, v long").option("maxFilesPerTrigger", 1)
        rows = reader.parquet(source or self.source).withColumn("v", self.value).withWatermark("ts", "0 seconds")
        counted = rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
        return counted.select("window.start", "k", "n", "s")

    def writer(self, mode: str = "append", source: str = "") -> DataStreamWriter:
        """Its writer, to the end of its input."""
        writer = self.counts(source).writeStream.outputMode(mode).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint"))

    def at(self, place: str, mode: str) -> Job:
        """Another query, in a place of its own."""
        return Job(self.spark, self.source, self.folder / place, mode, self.listener)

    def take(self, rows: DataFrame, batch: int) -> None:
        """A function of the job, which keeps what it gets; of a micro-batch that runs again what it gets last."""
        self.seen[batch] = sorted(map(repr, rows.collect()))

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}_{self.mode}"


def finish(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(900)
    return query


def taken(job: Job, mode: str = "append", before: Callable[[int], None] = lambda _: None) -> Batches:
    """What a function of the job gets in each micro-batch."""

    def take(rows: DataFrame, batch: int) -> None:
        before(batch)
        job.take(rows, batch)

    finish(job.writer(mode).foreachBatch(take).queryName(job.name).start())
    return job.seen


def new_session(job: Job) -> Batches:
    """Update mode, in a session that the job makes itself."""
    job.spark = job.spark.newSession()
    job.spark.conf.set("spark.slash.mode", job.mode)
    return taken(job, "update")


def table(job: Job) -> Batches:
    """A table that the query makes."""
    finish(job.writer().option("path", job.out).toTable(job.name))
    return {0: sorted(map(repr, job.spark.table(job.name).collect()))}


def counted(job: Job) -> Batches:
    """What a sink that counts its rows has told Spark, and what Spark calls it."""
    query = finish(job.writer("update").format("noop").start())
    return {
        one.batchId: [one.sink.description.split("@")[0], str(one.sink.numOutputRows)] for one in query.recentProgress
    }


def failing(job: Job) -> Batches:
    """A function that fails in its second micro-batch, and what Spark says of it; then the query is started again."""

    def fail(batch: int) -> None:
        if batch == 1:
            raise RuntimeError("the sink is out of order")

    try:
        taken(job, before=fail)
    except PySparkException as error:
        said = [part in str(error) for part in ("FOREACH_BATCH_USER_FUNCTION_ERROR", "the sink is out of order")]
        job.seen[-1] = [repr(said)]
    return taken(job)


class Kill:
    """Ends the process beside the driver, from whatever process; a task may be there twice."""

    def __init__(self, spark: SparkSession) -> None:
        self.process = side_car(spark)
        assert self.process

    def __call__(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)


def at_start(job: Job, strike: Callable[[], None]) -> None:
    """Spark waits for its listeners while it starts a query."""
    job.listener.once = strike
    taken(job)


def between_batches(job: Job, strike: Callable[[], None]) -> None:
    """More input comes when there is nothing left to do."""
    first, *others = sorted(Path(job.source).iterdir())
    folder = job.folder / "source"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(first, folder)
    query = job.writer(source=str(folder)).trigger(processingTime="0 seconds").foreachBatch(job.take).start()
    try:
        query.processAllAvailable()
        strike()
        for path in others:
            shutil.copy2(path, folder)
        query.processAllAvailable()
    finally:
        query.stop()


def in_an_update(job: Job, strike: Callable[[], None]) -> None:
    """Tasks run a function of the query."""

    def value(v: int) -> int:
        if v == 7:
            strike()
        return v

    job.value = F.udf(value, "long")("v")
    taken(job)


def in_a_sink(job: Job, strike: Callable[[], None]) -> None:
    """The job's function has the second micro-batch."""
    taken(job, before=lambda batch: strike() if batch == 1 else None)


def at_point(job: Job, strike: Callable[[], None]) -> None:
    """It strikes when its epoch is there."""
    strike()
    taken(job)


class Order:
    """Has the process beside the driver end itself at a point of its second epoch, once."""

    def __init__(self, point: str, folder: Path) -> None:
        self._point, self._marker = point, folder / "struck"

    def __call__(self) -> None:
        Path(os.environ[ORDER]).write_text(f"{self._point}\n1\n{self._marker}")


def killed_at(job: Job, point: str) -> dict[str, Any]:
    """Of a named point of an epoch."""
    job.folder.mkdir(parents=True)
    found = killed(job, at_point, Order(point, job.folder))
    return {**found, "struck": (job.folder / "struck").exists()}


KILLS = {run.__name__: run for run in (at_start, between_batches, in_an_update, in_a_sink)}


def killed(
    job: Job, run: Callable[[Job, Callable[[], None]], None], strike: Callable[[], None] | None = None
) -> dict[str, Any]:
    """What a query says whose Python dies, and all its rows when it has been started again."""
    said = ""
    try:
        run(job, strike or Kill(job.spark))
    except (PySparkException, Py4JJavaError) as error:
        said = str(error)
    run(job, lambda: None)
    return {"said": said, "rows": sorted(row for rows in job.seen.values() for row in rows)}


def side_car(spark: SparkSession) -> int:
    """The process of pyslash that the JVM has started; 0 if there is none."""
    for child in spark._jvm.java.lang.ProcessHandle.current().children().toArray():
        if "side_car" in Path(f"/proc/{child.pid()}/cmdline").read_text():
            return int(child.pid())
    return 0


CASES: dict[str, Callable[[Job], Batches]] = {
    "function": taken,
    "new_session": new_session,
    "table": table,
    "counted": counted,
    "failing": failing,
}


def refusals(job: Job) -> dict[str, str]:
    """What Spark raises where a query must not start; of one that does start, its micro-batches."""
    spark = job.spark

    def outcome(mode: str, place: str, query: Callable[[Job], DataStreamWriter], **conf: str) -> str:
        settings = {"mode": mode, **conf}
        for name, value in settings.items():
            spark.conf.set(f"spark.slash.{name}", value)
        try:
            ran = finish(query(job.at(place, mode)).format("noop").start())
            return f"{len(ran.recentProgress)} micro-batches"
        except PySparkException as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        finally:
            for name in settings:
                spark.conf.unset(f"spark.slash.{name}")

    def few(job: Job) -> DataStreamWriter:
        rows = spark.readStream.schema("ts timestamp, k long, v long").parquet(job.source)
        return rows.limit(3).writeStream.trigger(availableNow=True)

    return {
        "not covered, auto": outcome("auto", "few", few),
        "not covered, require": outcome("require", "few", few),
        "off, over state of pyslash": outcome("Off", "function/require", Job.writer),
        "a key that there is not": outcome("auto", "key", Job.writer, mod="auto"),
        "a value that there is not": outcome("sometimes", "value", Job.writer),
    }


def enabled(job: Job) -> dict[str, Any]:
    """Before the job knows pyslash after all, then, and when it has turned it off: is the query this process's?"""
    import pyslash
    from pyslash.driver.start import hook

    def ran(place: str) -> list[Any]:
        query = job.at(place, job.mode).writer().format("noop").start()
        figures = pyslash.progress(finish(query))
        return [hook.runner_of(query) is not None, [epoch["epoch"] for epoch in figures]]

    job.spark.conf.set("spark.slash.mode", job.mode)
    found = {"before": ran("before")}
    pyslash.enable(job.spark)
    found["enabled"] = ran("enabled")
    pyslash.disable()
    return {**found, "disabled": ran("disabled")}


def main(source: str, folder: Path, *cases: str) -> None:
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    listener = Started()
    spark.streams.addListener(listener)  # before this session has any plan
    job = Job(spark, source, folder, "require", listener)
    report: dict[str, Any] = {}
    points = [case.removeprefix(AT) for case in cases if case.startswith(AT)]
    kills = [case for case in cases if case in KILLS]
    for case in (case for case in cases if case in CASES):
        report[case] = {}
        for mode in ("off", "require"):
            spark.conf.set("spark.slash.mode", mode)
            query = job.at(f"{case}/{mode}", mode)
            report[case][mode] = CASES[case](query)
            report[case][f"{mode} on pyslash"] = (query.folder / "checkpoint" / "slash").is_dir()
    spark.conf.set("spark.slash.mode", "require")
    report["points"] = {point: killed_at(job.at(point, "require"), point) for point in points}
    report["kills"] = {point: killed(job.at(point, "require"), KILLS[point]) for point in kills}
    if not points + kills:
        look_at_all(job, report)
    (folder / "report.json").write_text(json.dumps(report))
    spark.stop()


def look_at_all(job: Job, report: dict[str, Any]) -> None:
    """What has no counterpart on plain Spark."""
    spark = job.spark
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    report["refusals"] = refusals(job)
    report["side car"] = side_car(spark)
    report["enabled"] = enabled(job.at("enabled", "require"))
    report["started"] = job.listener.names


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
