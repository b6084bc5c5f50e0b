"""Every sink gives on pyslash what it gives on plain Spark, and refuses what it refuses there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from pyspark.sql.types import StructType

import pyslash
from pyslash.driver.sinks import OpenSink
from pyslash.driver.start.hook import runner_of
from pyslash.errors import UnsupportedQueryError
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.session import changed
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
COLUMNS = "start timestamp, k long, n long"
Rows = list[tuple[object, ...]]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    for batch in range(2):
        times = [seconds(1000 + 10 * batch + i % 10) for i in range(20)]
        made.add(pa.table({"ts": times, "k": [i % 3 for i in range(20)], "v": list(range(20))}, SCHEMA))
    made.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))
    pyslash.enable(spark)
    yield made
    spark.conf.unset("spark.slash.mode")
    for query in spark.streams.active:
        query.stop()
    pyslash.disable()
    for view in ("sink_off", "sink_require"):
        spark.catalog.dropTempView(view)


@dataclass(frozen=True)
class Target:
    """One run of a query: its mode of pyslash, and a folder of its own."""

    stream: Stream
    mode: str

    @property
    def spark(self) -> SparkSession:
        return self.stream.spark

    @property
    def folder(self) -> Path:
        return self.stream.folder / self.mode

    @property
    def name(self) -> str:
        return f"sink_{self.mode}"

    @property
    def out(self) -> str:
        return str(self.folder / "out")

    def counts(self) -> DataFrame:
        counted = self.stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"))
        return counted.select("window.start", "k", "n")

    def writer(self, rows: DataFrame | None = None) -> DataStreamWriter:
        checkpoint = str(self.folder / "checkpoint")
        writer = (rows or self.counts()).writeStream.option("checkpointLocation", checkpoint)
        return writer.trigger(availableNow=True)

    def finish(self, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        """Run a query to its end, by this mode."""
        self.spark.conf.set("spark.slash.mode", self.mode)
        query = start()
        assert query.awaitTermination(900)
        assert bool(pyslash.progress(query)) == (self.mode == "require")
        return query

    def sink(self, start: Callable[[], StreamingQuery]) -> OpenSink:
        """That of a query on pyslash, which has ended."""
        runner = runner_of(self.finish(start))
        assert runner is not None
        return runner.sink


def outcomes(stream: Stream, run: Callable[[Target], Rows]) -> Rows:
    """The rows of a run on pyslash, which are those of plain Spark."""
    expected = sorted(run(Target(stream, "off")))
    assert len(expected) == 6
    assert sorted(run(Target(stream, "require"))) == expected
    return expected


def rows_of(found: list[Row]) -> Rows:
    return [tuple(row) for row in found]


@pytest.mark.parametrize("source", ["parquet", "json", "csv", "orc"])
def test_files(stream: Stream, source: str) -> None:
    def run(target: Target) -> Rows:
        target.finish(lambda: target.writer().format(source).start(target.out))
        assert (Path(target.out) / "_spark_metadata").is_dir()
        return rows_of(stream.spark.read.schema(COLUMNS).format(source).load(target.out).collect())

    outcomes(stream, run)


def test_text(stream: Stream) -> None:
    def run(target: Target) -> Rows:
        lines = target.counts().select(F.to_json(F.struct("start", "k", "n")).alias("value"))
        target.finish(lambda: target.writer(lines).start(path=target.out, format="text"))
        return rows_of(stream.spark.read.text(target.out).collect())

    outcomes(stream, run)


def test_partitioned_files(stream: Stream) -> None:
    def run(target: Target) -> Rows:
        # Spark finds the column whatever its case, and names the folder as the query does.
        target.finish(lambda: target.writer().start(target.out, "parquet", partitionBy="K"))
        assert {path.name for path in Path(target.out).glob("k=*")} == {"k=0", "k=1", "k=2"}
        return rows_of(stream.spark.read.parquet(target.out).select("start", "k", "n").collect())

    outcomes(stream, run)


def test_a_batch_that_files_hold_is_not_written_again(stream: Stream) -> None:
    def run(target: Target) -> Rows:
        target.finish(lambda: target.writer().start(target.out, "parquet"))
        for log in ("commits/2", "commits/.2.crc", "commits/3", "commits/.3.crc"):
            (target.folder / "checkpoint" / log).unlink(missing_ok=True)
        target.finish(lambda: target.writer().start(target.out, "parquet"))
        return rows_of(stream.spark.read.parquet(target.out).collect())

    outcomes(stream, run)


def test_console(stream: Stream) -> None:
    jvm: Any = stream.spark._jvm

    def run(target: Target) -> Rows:
        # Spark prints by Scala's own notion of the standard output.
        console = getattr(getattr(jvm.scala, "Console$"), "MODULE$")
        standard, buffer = console.out(), jvm.java.io.ByteArrayOutputStream()
        console.setOutDirect(jvm.java.io.PrintStream(buffer))
        try:
            target.finish(lambda: target.counts().writeStream.trigger(availableNow=True).start(format="console"))
        finally:
            console.setOutDirect(standard)
        printed = str(buffer.toString())
        assert "Batch: 0" in printed
        return [tuple(line.split("|")) for line in printed.splitlines() if line.startswith("|1970")]

    outcomes(stream, run)


@pytest.mark.parametrize("mode", ["off", "require"])
def test_noop(stream: Stream, mode: str) -> None:
    target = Target(stream, mode)
    target.finish(lambda: target.counts().writeStream.trigger(availableNow=True).start(format="noop"))


def test_memory(stream: Stream) -> None:
    def run(target: Target) -> Rows:
        target.finish(lambda: target.writer().start(format="memory", queryName=target.name))
        return rows_of(stream.spark.table(target.name).collect())

    outcomes(stream, run)


def test_foreach(stream: Stream) -> None:
    def run(target: Target) -> Rows:
        folder = target.folder / "rows"
        folder.mkdir(parents=True)

        class Writer:
            def open(self, partition: int, epoch: int) -> bool:
                self.file = (folder / f"{epoch}-{partition}").open("w")
                return True

            def process(self, row: Row) -> None:
                self.file.write(json.dumps([str(row.start), row.k, row.n]) + "\n")

            def close(self, error: Exception | None) -> None:
                self.file.close()

        target.finish(lambda: target.writer().foreach(Writer()).start())
        return [tuple(json.loads(line)) for path in folder.iterdir() for line in path.read_text().splitlines()]

    outcomes(stream, run)


def test_foreach_batch_is_called_once_a_batch(stream: Stream) -> None:
    def run(target: Target) -> Rows:
        batches: dict[int, Rows] = {}

        def keep(rows: DataFrame, epoch: int) -> None:
            assert epoch not in batches
            batches[epoch] = rows_of(rows.collect())

        target.finish(lambda: target.writer().foreachBatch(keep).start())
        return [row for rows in batches.values() for row in rows]

    outcomes(stream, run)


@pytest.mark.parametrize("exists", [True, False])
def test_table_of_the_session_catalog(stream: Stream, exists: bool) -> None:
    def run(target: Target) -> Rows:
        if exists:
            stream.spark.sql(f"CREATE TABLE {target.name} ({COLUMNS}) USING parquet PARTITIONED BY (k)")
        try:
            target.finish(lambda: target.writer().toTable(target.name, format="parquet", partitionBy="k"))
            made = stream.spark.sql(f"DESCRIBE EXTENDED {target.name}").collect()
            assert [row.col_name for row in made[:5]] == ["start", "n", "k", "# Partition Information", "# col_name"]
            return rows_of(stream.spark.table(target.name).select("start", "k", "n").collect())
        finally:
            stream.spark.sql(f"DROP TABLE IF EXISTS {target.name}")

    outcomes(stream, run)


def test_table_at_a_path(stream: Stream) -> None:
    def run(target: Target) -> Rows:
        try:
            target.finish(lambda: target.writer().toTable(target.name, format="json", path=target.out))
            return rows_of(stream.spark.table(target.name).select("start", "k", "n").collect())
        finally:
            stream.spark.sql(f"DROP TABLE IF EXISTS {target.name}")

    outcomes(stream, run)
    assert (Path(Target(stream, "require").out) / "_spark_metadata").is_dir()


def recorder(folder: Path) -> type[DataSource]:
    """A V2 sink: its tasks report their rows, its commits and aborts are files. Pickled by value, hence in here."""

    @dataclass
    class Rows(WriterCommitMessage):
        rows: list[list[object]]

    class Writer(DataSourceStreamWriter):
        def write(self, iterator: Iterator[Row]) -> Rows:
            rows = [[str(row.start), row.k, row.n] for row in iterator]
            if rows and (folder / "refuse").exists():
                raise RuntimeError("this sink takes no rows")
            return Rows(rows)

        def commit(self, messages: list[Any], batchId: int) -> None:
            (folder / f"commit-{batchId}").write_text(json.dumps([row for task in messages for row in task.rows]))

        def abort(self, messages: list[Any], batchId: int) -> None:
            (folder / f"abort-{batchId}").touch()

    class Recorder(DataSource):
        @classmethod
        def name(cls) -> str:
            return "recorder"

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            return Writer()

    return Recorder


def test_a_v2_sink_commits_and_aborts_batch_by_batch(stream: Stream) -> None:
    def run(target: Target) -> Rows:
        folder = target.folder / "recorded"
        folder.mkdir(parents=True)
        stream.spark.dataSource.register(recorder(folder))
        # Spark looks for it in the thread's active session. Other tests may leave none; this makes ours active.
        stream.spark.createDataFrame([], "k long")
        (folder / "refuse").touch()
        with pytest.raises(StreamingQueryException, match="this sink takes no rows"):
            target.finish(lambda: target.writer().start(format="recorder"))
        (aborted,) = [int(path.name.removeprefix("abort-")) for path in folder.glob("abort-*")]
        (folder / "refuse").unlink()
        target.finish(lambda: target.writer().start(format="recorder"))
        found = {
            int(path.name.removeprefix("commit-")): json.loads(path.read_text()) for path in folder.glob("commit-*")
        }
        assert sorted(found) == list(range(len(found)))
        assert found[aborted]
        return [tuple(row) for rows in found.values() for row in rows]

    outcomes(stream, run)


def test_rows_written_are_counted_where_spark_counts_them(stream: Stream) -> None:
    target = Target(stream, "require")
    rows = stream.spark.range(5).selectExpr("timestamp_seconds(id) start", "id k", "id n")
    files = target.sink(lambda: target.writer().format("parquet").start(target.out))
    memory = target.sink(lambda: plain(target).format("memory").queryName(target.name).start())
    assert [files.write(rows, 10), memory.write(rows, 10), memory.write(rows.limit(2), 11)] == [None, 5, 2]


@pytest.fixture
def an_optimization(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """Gives the session a rule of its own, which changes nothing, and has it show logical plans too."""
    spark.conf.set("spark.sql.ui.explainMode", "extended")
    assert spark._jvm is not None
    rule = getattr(getattr(spark._jvm, "org.apache.spark.sql.catalyst.optimizer.CollapseProject$"), "MODULE$")
    rules = spark._jsparkSession.experimental()
    before = rules.extraOptimizations()
    give = getattr(rules, "extraOptimizations_$eq")
    yield lambda: give(spark._jvm.PythonUtils.toSeq([rule]))
    give(before)
    spark.conf.unset("spark.sql.ui.explainMode")


def test_a_write_is_planned_as_by_all_rules_of_spark(stream: Stream, an_optimization: Callable[[], None]) -> None:
    spark, target = stream.spark, Target(stream, "require")
    sink = target.sink(lambda: target.writer().format("memory").queryName(target.name).start())
    from_job = spark.createDataFrame([(datetime(2020, 1, 1), 1, 2)], COLUMNS)
    arrow = pa.Table.from_pylist([{"start": datetime(2020, 1, 1, tzinfo=UTC), "k": 1, "n": 2}])
    data = pa.BufferOutputStream()
    with pa.ipc.new_stream(data, arrow.schema) as written:
        written.write_table(arrow)
    stored = data.getvalue().to_pybytes()
    local = JvmBridge(spark).java.merged(spark._jsparkSession, stored, from_job.schema.json())

    def plans(batch: int) -> list[str]:
        found = []
        for rows in (from_job, DataFrame(local, spark)):
            assert sink.write(rows, batch + len(found)) == 1
            found.append(last_plan(spark))
        return found

    by_one_rule = plans(10)
    an_optimization()
    assert by_one_rule == plans(20)
    assert all("MicroBatchWrite" in plan for plan in by_one_rule)


def test_a_write_is_planned_by_one_rule_where_only_pyslash_has_extended_the_session(
    stream: Stream, an_optimization: Callable[[], None]
) -> None:
    java = JvmBridge(stream.spark).java
    plans = java.getClass().getClassLoader().loadClass("io.pyslash.shim.QueryPlans")
    has_more = next(method for method in plans.getMethods() if method.getName() == "hasMoreRules")

    def has_more_rules() -> bool:
        assert stream.spark._jvm is not None
        arguments = stream.spark.sparkContext._gateway.new_array(stream.spark._jvm.Object, 1)
        arguments[0] = stream.spark._jsparkSession
        return bool(has_more.invoke(None, arguments))

    assert not has_more_rules()
    an_optimization()
    assert has_more_rules()


def last_plan(spark: SparkSession) -> str:
    """All plans of the session's last execution, without numbers and identities of objects."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    last = spark._jsparkSession.sharedState().statusStore().executionsList().last()
    return re.sub(r"@[0-9a-f]+|\d+", "", str(last.physicalPlanDescription()))


def view(target: Target) -> None:
    target.counts().sparkSession.range(1).createOrReplaceTempView(target.name)


def nothing(target: Target) -> None:
    pass


def table(target: Target) -> None:
    target.spark.sql(f"CREATE TABLE IF NOT EXISTS misused ({COLUMNS}) USING json LOCATION '{target.stream.folder}/t'")
    target.spark.sql("CREATE OR REPLACE VIEW misused_view AS SELECT 1 AS one")


def earlier_query(target: Target) -> None:
    target.finish(lambda: target.writer().start(format="memory", queryName=target.name))


def plain(target: Target) -> DataStreamWriter:
    return target.counts().writeStream.trigger(availableNow=True)


Misuse = Callable[[Target], StreamingQuery]
MISUSES: dict[str, tuple[Callable[[Target], None], Misuse]] = {
    "a partition column that is not there": (nothing, lambda t: t.writer().start(t.out, "parquet", partitionBy="x")),
    "partitionBy and foreachBatch": (
        nothing,
        lambda t: t.writer().foreachBatch(lambda rows, epoch: None).partitionBy("k").start(),
    ),
    "partitionBy and foreach": (nothing, lambda t: t.writer().foreach(print).partitionBy("k").start()),
    "partitionBy and memory": (
        nothing,
        lambda t: t.writer().format("memory").queryName("misused").partitionBy("k").start(),
    ),
    "path twice": (nothing, lambda t: t.writer().option("path", t.out).start(t.out)),
    "no path": (nothing, lambda t: t.writer().format("parquet").start()),
    "no checkpoint": (nothing, lambda t: plain(t).format("parquet").start(t.out)),
    "no checkpoint of a table": (nothing, lambda t: plain(t).option("path", t.out).toTable(f"unchecked_{t.mode}")),
    "a source that is not there": (nothing, lambda t: t.writer().format("papyrus").start(t.out)),
    "a source that takes no streams": (nothing, lambda t: t.writer().format("rate").start()),
    "hive": (nothing, lambda t: t.writer().format("hive").start(t.out)),
    "memory in capitals": (nothing, lambda t: t.writer().format("MEMORY").queryName("misused").start()),
    "memory without a name": (nothing, lambda t: t.writer().format("memory").start()),
    "memory from a checkpoint": (earlier_query, lambda t: t.writer().start(format="memory", queryName=t.name)),
    "a temporary view": (view, lambda t: t.writer().toTable(t.name)),
    "a view": (table, lambda t: t.writer().toTable("misused_view")),
    "a table of another format": (table, lambda t: t.writer().format("parquet").toTable("misused")),
    "a catalog that is not there": (nothing, lambda t: t.writer().toTable("papyrus.a.b")),
    "a name that is none": (nothing, lambda t: t.writer().toTable("a b")),
}


def said(error: PySparkException | Py4JJavaError) -> list[str]:
    """The class of Spark's error, and its message."""
    if isinstance(error, Py4JJavaError):  # PySpark has no class for it
        return [error.java_exception.getClass().getName(), error.java_exception.getMessage()]
    return [type(error).__name__, str(error.getCondition()), str(error)]


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_is_refused_as_spark_refuses_it(stream: Stream, misuse: str) -> None:
    prepare, start = MISUSES[misuse]
    errors = {}
    try:
        for mode in ("off", "require"):
            target = Target(stream, mode)
            prepare(target)
            stream.spark.conf.set("spark.slash.mode", mode)
            with pytest.raises((PySparkException, Py4JJavaError)) as caught:
                start(target)
            errors[mode] = [part.replace(f"/{mode}/", "/_/").replace(f"_{mode}", "_") for part in said(caught.value)]
    finally:
        for name in ("misused", "unchecked_off", "unchecked_require"):
            stream.spark.sql(f"DROP TABLE IF EXISTS {name}")
        stream.spark.sql("DROP VIEW IF EXISTS misused_view")
    assert errors["require"] == errors["off"]


def test_require_holds_for_tables(stream: Stream) -> None:
    """Spark makes the table before the query starts."""
    stream.spark.conf.set("spark.slash.mode", "require")
    try:
        with pytest.raises(UnsupportedQueryError, match="limits"):
            stream.read().limit(3).writeStream.toTable("refused")
        assert stream.spark.table("refused").count() == 0
    finally:
        stream.spark.sql("DROP TABLE IF EXISTS refused")


@pytest.mark.parametrize("option", ["checkpointLocation", "queryName"])
def test_an_option_that_is_none_is_as_if_it_were_not_there(stream: Stream, option: str) -> None:
    """As where a job asks its environment for it."""
    counted = stream.read().groupBy("k").count().writeStream.outputMode("update").option(option, None)
    writer = counted.format("noop").trigger(availableNow=True)
    with changed(stream.spark, {"spark.slash.mode": "off"}):
        try:
            assert writer.start().awaitTermination(120)
        except IllegalArgumentException as error:  # Spark 4.0 takes none for a location
            refused = str(error)
        else:
            refused = ""
    with changed(stream.spark, {"spark.slash.mode": "require"}):
        if refused:
            with pytest.raises(IllegalArgumentException, match=re.escape(refused)):
                writer.start()
            return
        query = writer.start()
    assert query.awaitTermination(120)
    assert pyslash.progress(query)
    assert query.name is None
