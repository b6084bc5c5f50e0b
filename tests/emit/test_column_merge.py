"""Tasks in the JVM that read blocks out of their sight: through their agent, which says what is wrong."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from pyslash.emit.column_merge import ColumnMerge, ReadOptions
from pyslash.emit.merge import MergeRequest
from pyslash.plan.spec import PlanSpec
from pyslash.protocol.token import Right, query_token
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.update_spec import AgentSpec, UpdateSpec
from tests.agent.conftest import wait_until_gone
from tests.support.update_case import BEGINNING, BY_NUMBER, WINDOW_US, Block, committed, plan_text, spark_answer

ARENA = 64 << 20
PLAN = plan_text(BY_NUMBER[0])
WINDOWS = list(range(0, 60_000_000, WINDOW_US))
SCHEMA = StructType([StructField(name, LongType()) for name in ("start", "end", "k", "sum", "count")])


class Case:
    """Blocks of a query, whose one agent listens at a path that is too long for a Unix socket's address."""

    def __init__(self, spark: SparkSession, events: str, folder: Path) -> None:
        self.spark, self.rows = spark, spark.read.parquet(events)
        self.query, self.secret = secrets.token_bytes(16), secrets.token_bytes(32)
        where = str(folder / ("x" * 150))
        agent = AgentSpec(secret=self.secret, arena_bytes=ARENA, python=sys.executable, runtime_dir=where)
        plan = PlanSpec.decode(PLAN)
        spec = UpdateSpec(plan=plan, watermark_us=BEGINNING, query=self.query, epoch=0, agent=agent)
        receipts, _ = JvmBridge(spark).update(self.rows.select(BY_NUMBER[1]), spec)
        self.agent = receipts[0].agent
        self.blocks = committed(receipts, PLAN, self.query, self.secret)

    def reading(self, transport: str = "tcp") -> ReadOptions:
        token = query_token(self.secret, self.query, Right.READ)
        agent = AgentSpec(secret=self.secret, arena_bytes=ARENA, python=sys.executable)
        return ReadOptions(self.query, token, transport, 5, agent)

    def merge(self, columns: ColumnMerge, blocks: list[Block]) -> DataFrame:
        panes = (0, 60_000_000)
        request = MergeRequest(PLAN, WINDOWS, None, panes, blocks, self.query, b"", "tcp", pa.schema([]), 5)
        return columns.rows(self.spark, request, SCHEMA, 2)


@pytest.fixture(scope="module")
def case(spark: SparkSession, events: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    made = Case(spark, events, tmp_path_factory.mktemp("agents"))
    yield made
    os.kill(made.agent.pid, signal.SIGTERM)
    assert wait_until_gone(made.agent.pid)


@pytest.mark.parametrize("transport", ["tcp", "auto"])
def test_blocks_are_merged_in_place_or_gathered(case: Case, transport: str) -> None:
    assert len(case.agent.socket) > 150
    columns = ColumnMerge(case.spark, case.reading(transport))
    rows = case.merge(columns, case.blocks).collect()
    assert {(row.start, row.k, row["sum"], row["count"]) for row in rows} == spark_answer(case.spark, case.rows, "k")
    counts = columns.new_counts()
    used, unused = ("tcp", "shm") if transport == "tcp" else ("shm", "tcp")
    assert counts["rows"] == len(rows)
    assert counts[used] > 100_000
    assert counts[unused] == 0
    assert counts["merge_ns"] > 0 < counts["above_ns"]
    assert set(columns.new_counts().values()) == {0}


def test_the_agent_that_is_gone_is_named(case: Case) -> None:
    elsewhere = replace(case.agent, boot_id="of another host", port=1, incarnation="00" * 16)
    rows = case.merge(ColumnMerge(case.spark, case.reading("auto")), [(elsewhere, raw) for _, raw in case.blocks])
    with pytest.raises(Exception, match="AgentUnavailableError: agent 00000000"):
        rows.collect()


def test_a_transport_that_cannot_be_used_says_why(case: Case) -> None:
    elsewhere = replace(case.agent, boot_id="of another host")
    rows = case.merge(ColumnMerge(case.spark, case.reading("shm")), [(elsewhere, raw) for _, raw in case.blocks])
    with pytest.raises(Exception, match=r"TransportUnavailableError: spark\.slash\.transport=shm, but agent"):
        rows.collect()


def test_a_token_of_another_query_reads_nothing(case: Case) -> None:
    columns = ColumnMerge(case.spark, replace(case.reading(), token=query_token(case.secret, bytes(16), Right.READ)))
    with pytest.raises(Exception, match="UnauthenticatedError: who listens there"):
        case.merge(columns, case.blocks).collect()
