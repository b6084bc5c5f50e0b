"""The row bridge: a DataFrame's rows into the executors' arenas without Python, and what becomes of failures."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash import _native
from pyslash.errors import AgentStartError, ArenaFullError, InvalidInputError, InvalidPlanError, SlashError
from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.plan.spec import PlanSpec
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token
from pyslash.spark import jvm_bridge
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.update_spec import AgentSpec, UpdateSpec
from pyslash.state.receipt import Receipt
from tests.agent.blocks import attach
from tests.agent.conftest import wait_until_gone
from tests.agent.raw import soon
from tests.support.events import ROWS, run_application
from tests.support.update_case import BEGINNING, BY_NUMBER, BY_STRING, committed, merged, plan_text, spark_answer

ARENA = 256 << 20


@pytest.fixture
def query() -> bytes:
    """A query of its own for each test."""
    return secrets.token_bytes(16)


class Updates:
    """Update jobs of one query on the shared session."""

    def __init__(self, session: SparkSession, query: bytes, secret: bytes) -> None:
        self.bridge = JvmBridge(session)
        self.query, self.secret = query, secret

    def spec(self, plan: str) -> UpdateSpec:
        """One job, of epoch 0."""
        agent = AgentSpec(secret=self.secret, arena_bytes=ARENA, python=sys.executable)
        return UpdateSpec(plan=PlanSpec.decode(plan), watermark_us=BEGINNING, query=self.query, epoch=0, agent=agent)

    def run(self, rows: DataFrame, plan: str, **agent: Any) -> list[Receipt]:
        """One job, with another agent if told."""
        spec = self.spec(plan)
        receipts, _ = self.bridge.update(rows, replace(spec, agent=replace(spec.agent, **agent)))
        return receipts

    def agent(self, session: SparkSession) -> AgentDescriptor:
        """The session's agent, by an update of another query."""
        rows, other = session.sql("select timestamp_seconds(0), 1L, 1L"), secrets.token_bytes(16)
        (receipt,), _ = self.bridge.update(rows, replace(self.spec(plan_text(BY_NUMBER[0])), query=other))
        with AgentClient(receipt.agent, other, query_token(self.secret, other)) as client:
            client.drop()
        return receipt.agent

    def client(self, agent: AgentDescriptor) -> AgentClient:
        """The agent, asked for this query."""
        return AgentClient(agent, self.query, query_token(self.secret, self.query))


@pytest.fixture
def updates(spark: SparkSession, query: bytes, application_secret: bytes) -> Iterator[Updates]:
    """Ends with nothing of the query left."""
    made = Updates(spark, query, application_secret)
    yield made
    agent = made.agent(spark)
    with made.client(agent) as client:
        client.drop()
    assert [block for block in attach(agent).blocks() if block[4] == query] == []


@pytest.fixture
def input_rows(spark: SparkSession, events: str) -> DataFrame:
    """200,000 rows."""
    return spark.read.parquet(events)


@pytest.mark.parametrize(("lines", "columns", "key"), [BY_NUMBER, BY_STRING])
def test_groups_are_those_of_spark(
    spark: SparkSession, updates: Updates, input_rows: DataFrame, lines: str, columns: list[str], key: str
) -> None:
    plan = plan_text(lines)
    receipts = updates.run(input_rows.select(columns), plan)
    assert sum(receipt.head.rows for receipt in receipts) == ROWS
    blocks = committed(receipts, plan, updates.query, updates.secret)
    assert merged(blocks, plan, updates.query, updates.secret) == spark_answer(spark, input_rows, key)


def test_agents_are_found_without_rows(spark: SparkSession, updates: Updates) -> None:
    spec = AgentSpec(secret=updates.secret, arena_bytes=ARENA, python=sys.executable)
    found = updates.bridge.agents(4, spec)
    assert found == [updates.agent(spark)]
    assert [block for block in attach(found[0]).blocks() if block[4] == bytes(16)] == []
    os.kill(found[0].pid, signal.SIGKILL)
    assert wait_until_gone(found[0].pid)
    (another,) = updates.bridge.agents(4, spec)
    assert another.incarnation != found[0].incarnation


def publishing(publisher: BlockPublisher) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: a task publishes its rows as one block, and gives the receipt."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([publisher.receipt(batches)], pa.binary())], names=["receipt"])

    return task


def test_tasks_in_python_give_the_same_receipts(spark: SparkSession, updates: Updates, input_rows: DataFrame) -> None:
    lines, columns, key = BY_STRING
    plan = plan_text(lines)
    rows = input_rows.select(columns)
    by_rows = updates.run(rows, plan)
    publisher = BlockPublisher(plan, BEGINNING, updates.query, 0, updates.secret, ARENA)
    published = rows.mapInArrow(publishing(publisher), "receipt binary")
    by_batches = [Receipt.parse(bytes(row.receipt)) for row in published.collect()]
    assert {receipt.agent for receipt in by_batches} == {receipt.agent for receipt in by_rows}
    for one, other in zip(by_rows, by_batches, strict=True):
        for figure in ("rows", "late_rows", "groups", "max_event_time", "length", "fingerprint"):
            assert getattr(one.head, figure) == getattr(other.head, figure), figure
    blocks = committed(by_batches, plan, updates.query, updates.secret)
    assert merged(blocks, plan, updates.query, updates.secret) == spark_answer(spark, input_rows, key)


def test_long_decimals_and_rows_larger_than_a_page_arrive_whole(spark: SparkSession, updates: Updates) -> None:
    plan = plan_text("column string 1\ncolumn decimal(30,2) 1\nkey 1\naggregate max 2 0\naggregate count - 0\n")
    rows = spark.sql(
        "select timestamp_seconds(id % 20) t, repeat(char(int(97 + id % 3)), int(1500000 + id % 3)) s, "
        "cast(id as decimal(30,2)) / 4 d from range(12)"
    ).selectExpr("t", "s", "cast(d as decimal(30,2)) d")
    receipts = updates.run(rows, plan)
    blocks = committed(receipts, plan, updates.query, updates.secret)
    found = merged(blocks, plan, updates.query, updates.secret)
    expected = {
        (row[0], row[1], row[2], row[3])
        for row in rows.groupBy(F.window("t", "10 seconds"), "s")
        .agg(F.max("d"), F.count("*"))
        .select(F.expr("unix_micros(window.start)"), "s", "max(d)", "count(1)")
        .collect()
    }
    assert found == expected


def test_rows_that_spark_keeps_as_objects_are_converted(spark: SparkSession, updates: Updates) -> None:
    # A scan of a table in the JVM's heap hands over generic rows where whole-stage code generation is off.
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    try:
        receipts = updates.run(
            spark.sql("select timestamp_seconds(id) t, id, id from range(100)"), plan_text(BY_NUMBER[0])
        )
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
        spark.conf.unset("spark.sql.codegen.factoryMode")
    assert sum(receipt.head.rows for receipt in receipts) == 100


def test_late_rows_and_the_latest_time_are_in_the_receipt(spark: SparkSession, updates: Updates) -> None:
    rows = spark.sql("select timestamp_seconds(id) t, id, id from range(30)").coalesce(1)
    spec = replace(updates.spec(plan_text(BY_NUMBER[0])), watermark_us=10_000_000)
    ((receipt,), _) = updates.bridge.update(rows, spec)
    assert (receipt.head.rows, receipt.head.late_rows, receipt.head.groups) == (30, 10, 20)
    assert receipt.head.max_event_time == 29_000_000


def test_an_empty_input_is_an_empty_receipt(spark: SparkSession, updates: Updates) -> None:
    receipts = updates.run(spark.sql("select timestamp_seconds(id), id, id from range(0)"), plan_text(BY_NUMBER[0]))
    assert [receipt.head.length for receipt in receipts] == [0] * len(receipts)


def test_a_job_that_fails_in_its_rows_is_spark_s_error_and_leaves_nothing(
    spark: SparkSession, updates: Updates
) -> None:
    def refuse(value: int) -> int:
        if value == 99_000:
            raise ValueError("a bad row")
        return value

    spark.conf.set("spark.sql.ansi.enabled", "true")
    rows = spark.range(100_000)
    agent = updates.agent(spark)
    failing = {
        "DIVIDE_BY_ZERO": rows.selectExpr("timestamp_seconds(id % 60) t", "id", "id div (id - 99000)"),
        "a bad row": rows.select(F.timestamp_seconds(F.col("id") % 60), "id", F.udf(refuse, "bigint")("id")),
    }
    for message, df in failing.items():
        with pytest.raises((PySparkException, Py4JJavaError), match=message):
            updates.run(df, plan_text(BY_NUMBER[0]))
    # The same agent, that is the same executor, is still there.
    assert updates.agent(spark) == agent
    deadline = soon()
    with updates.client(agent) as client:
        # Other tasks of the jobs publish, before or after the job has failed: what they did is discarded.
        while [block for block in attach(agent).blocks() if block[4] == updates.query]:
            assert time.monotonic() < deadline
            client.discard(0)
            time.sleep(0.1)


def test_a_cancelled_job_stops_and_leaves_nothing(spark: SparkSession, updates: Updates) -> None:
    agent = updates.agent(spark)
    endless = spark.range(1 << 50).selectExpr("timestamp_seconds(id % 60) t", "id % 1000 k", "id v")
    failures: list[BaseException] = []
    group = "to be cancelled"

    def run() -> None:
        spark.sparkContext.setJobGroup(group, group, interruptOnCancel=True)
        try:
            updates.run(endless, plan_text(BY_NUMBER[0]))
        except BaseException as failure:
            failures.append(failure)

    from pyspark import InheritableThread

    thread = InheritableThread(target=run)
    thread.start()
    tracker = spark.sparkContext.statusTracker()
    started = threading.Event()
    while not any(info and info.numActiveTasks for info in map(tracker.getStageInfo, tracker.getActiveStageIds())):
        assert not started.wait(0.05)
        assert thread.is_alive()
    spark.sparkContext.cancelJobGroup(group)
    thread.join(30)
    assert not thread.is_alive()
    assert "cancelled" in str(failures[0])
    assert updates.agent(spark) == agent
    while tracker.getActiveStageIds():
        assert not started.wait(0.05)
    assert [block for block in attach(agent).blocks() if block[4] == updates.query] == []


def test_a_full_arena_is_named_and_leaves_nothing(spark: SparkSession, updates: Updates) -> None:
    own = secrets.token_bytes(32)  # an agent of its own: a small arena
    small = {"secret": own, "arena_bytes": 4 << 20}
    few = spark.sql("select timestamp_seconds(id), id, id from range(10)").coalesce(1)
    many = spark.sql("select timestamp_seconds(id % 60), id, id from range(500000)").coalesce(1)
    (receipt,) = updates.run(few, plan_text(BY_NUMBER[0]), **small)
    with pytest.raises(ArenaFullError, match=r"spark\.slash\.arena\.size"):
        updates.run(many, plan_text(BY_NUMBER[0]), **small)
    assert len(attach(receipt.agent).blocks()) == 1
    os.kill(receipt.agent.pid, signal.SIGTERM)
    assert wait_until_gone(receipt.agent.pid)


def test_a_dead_agent_is_replaced_by_the_next_job(spark: SparkSession, updates: Updates) -> None:
    own = secrets.token_bytes(32)
    rows = spark.sql("select timestamp_seconds(id), id, id from range(10)").coalesce(1)
    (first,) = updates.run(rows, plan_text(BY_NUMBER[0]), secret=own)
    os.kill(first.agent.pid, signal.SIGKILL)
    assert wait_until_gone(first.agent.pid)
    (second,) = updates.run(rows, plan_text(BY_NUMBER[0]), secret=own)
    assert second.agent.incarnation != first.agent.incarnation
    assert second.head.incarnation == second.agent.incarnation_bytes
    os.kill(second.agent.pid, signal.SIGTERM)


def test_wrong_orders_are_errors_by_name(spark: SparkSession, updates: Updates) -> None:
    rows = spark.sql("select timestamp_seconds(id), id, id from range(10)").coalesce(1)
    plan = PlanSpec.decode(plan_text(BY_NUMBER[0]))
    with pytest.raises(InvalidPlanError, match="there is no column 9"):
        updates.run(rows, replace(plan, keys=(9,)).text)
    with pytest.raises(InvalidInputError, match="3 fields"):
        updates.run(rows, plan_text("column int64 1\naggregate count - 0\n"))
    with pytest.raises(AgentStartError, match="secret"):
        updates.run(rows, plan_text(BY_NUMBER[0]), secret=b"short")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (None, r"No such file or directory\. Let PYSPARK_PYTHON"),
        ("exit 3", "it ended with status 3 and said nothing"),
        ("echo 'Unknown option: -P'; echo usage; exit 2", "Unknown option: -P usage"),
        (
            r"printf 'Traceback (most recent call last):\n  f()\n  ^\nModuleNotFoundError: No module x\n'; exit 1",
            r"ensure`: ModuleNotFoundError: No module x\. Let PYSPARK_PYTHON",
        ),
    ],
    ids=["missing", "silent", "old", "without pyslash"],
)
def test_a_python_that_runs_no_agent_is_told_with_the_cause_and_what_to_set(
    spark: SparkSession, updates: Updates, tmp_path: Path, program: str | None, why: str
) -> None:
    python = tmp_path / "python"
    if program is not None:
        python.write_text(f"#!/bin/sh\n{program}\n")
        python.chmod(0o755)
    rows = spark.sql("select timestamp_seconds(id), id, id from range(10)").coalesce(1)
    with pytest.raises(AgentStartError, match=why):
        updates.run(rows, plan_text(BY_NUMBER[0]), secret=secrets.token_bytes(32), python=str(python))


def test_a_missing_jar_is_named(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: object) -> None:
    monkeypatch.setattr(jvm_bridge.resources, "files", lambda _: tmp_path)
    with pytest.raises(SlashError, match="Build it with a JDK"):
        JvmBridge(spark)


CLUSTER = """
import secrets, sys
from pyspark.sql import SparkSession
from pyslash.plan.spec import PlanSpec
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.update_spec import AgentSpec, UpdateSpec
from tests.support.update_case import BEGINNING, BY_STRING, committed, merged, plan_text, spark_answer

session = (SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").config("spark.driver.host", "127.0.0.1").config("spark.cores.max", "2")
    .config("spark.scheduler.minRegisteredResourcesRatio", "1.0").getOrCreate())
lines, columns, key = BY_STRING
plan, query, secret = plan_text(lines), secrets.token_bytes(16), secrets.token_bytes(32)
rows = session.read.parquet(sys.argv[1]).repartition(4)
agent = AgentSpec(secret=secret, arena_bytes=128 << 20, python=sys.executable)
spec = UpdateSpec(plan=PlanSpec.decode(plan), watermark_us=BEGINNING, query=query, epoch=0, agent=agent)
receipts, _ = JvmBridge(session).update(rows.select(columns), spec)
blocks = committed(receipts, plan, query, secret)
answer = spark_answer(session, rows, key)
for mode in ("shm", "tcp"):
    assert merged(blocks, plan, query, secret, mode) == answer, mode
print("agents", *sorted({str(receipt.agent.pid) for receipt in receipts}))
session.stop()
"""


def test_two_executors_have_two_agents_that_end_with_them(events: str) -> None:
    line = next(line for line in run_application(CLUSTER, events).splitlines() if line.startswith("agents"))
    pids = [int(pid) for pid in line.split()[1:]]
    assert len(pids) == 2
    assert all(wait_until_gone(pid) for pid in pids)


def test_heads_are_native(spark: SparkSession, updates: Updates) -> None:
    receipts = updates.run(spark.sql("select timestamp_seconds(id), id, id from range(10)"), plan_text(BY_NUMBER[0]))
    for receipt in receipts:
        assert isinstance(receipt.head, _native.Head)
        assert receipt.head.query == updates.query
