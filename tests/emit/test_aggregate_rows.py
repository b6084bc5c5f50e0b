"""Owners' tasks: rows that another job has partitioned, read by each transport, into the state that updates make."""

from __future__ import annotations

import secrets
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyslash import _native
from pyslash.emit import fetch
from pyslash.emit.aggregate_rows import AggregateRows
from pyslash.errors import CorruptBlockError
from pyslash.ingest.arrow_update import ArrowUpdate
from pyslash.plan.spec import PlanSpec
from pyslash.protocol.client import AgentClient
from pyslash.protocol.token import query_token
from pyslash.spark.job import run_numbered
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.update_spec import AgentSpec, UpdateSpec
from pyslash.state.block_state import BlockState
from pyslash.state.receipt import Receipt
from tests.agent.blocks import attach
from tests.support.events import ROWS
from tests.support.update_case import BEGINNING, BY_NUMBER, BY_STRING, committed, merged, plan_text, spark_answer

ARENA = 256 << 20


def scattered(session: SparkSession, update: ArrowUpdate, rows: DataFrame, bits: int, ingest: str) -> list[Receipt]:
    """Blocks of rows."""
    plan = PlanSpec.decode(update.plan).of_rows(bits)
    if ingest == "rows":
        agent = AgentSpec(secret=update.secret, arena_bytes=ARENA)
        spec = UpdateSpec(plan=plan, watermark_us=BEGINNING, query=update.query, epoch=0, agent=agent)
        receipts, _ = JvmBridge(session).update(rows, spec)
        return receipts
    task = ArrowUpdate(plan.text, BEGINNING, update.query, 0, update.secret, ARENA)
    return [Receipt.parse(bytes(row.receipt)) for row in rows.mapInArrow(task, "receipt binary").collect()]


@pytest.mark.parametrize(
    ("case", "ingest", "transport", "bits", "owners"),
    [(BY_NUMBER, "rows", "shm", 3, 2), (BY_STRING, "rows", "tcp", 4, 3), (BY_STRING, "arrow", "shm", 0, 1)],
)
def test_owners_find_the_groups_of_spark(
    spark: SparkSession,
    application_secret: bytes,
    events: str,
    case: tuple[str, list[str], str],
    ingest: str,
    transport: str,
    bits: int,
    owners: int,
) -> None:
    lines, columns, key = case
    rows = spark.read.parquet(events)
    update = ArrowUpdate(plan_text(lines), BEGINNING, secrets.token_bytes(16), 0, application_secret, ARENA)
    blocks = scattered(spark, update, rows.select(columns), bits, ingest)
    assert sum(block.head.rows for block in blocks) == sum(block.head.groups for block in blocks) == ROWS
    own = AggregateRows(update, [(block.agent, block.raw_head) for block in blocks], bits, owners, transport, 30)
    outcome = run_numbered(spark, owners, own)
    receipts = [Receipt.parse(receipt) for receipt, _ in outcome]
    assert sum(receipt.head.rows for receipt in receipts) == ROWS
    read = [shuffled for _, shuffled in outcome]
    assert {name for figures in read for name in figures} == {transport}
    # Every segment has one reader.
    assert sum(figures[transport] for figures in read) == sum(
        length for block in blocks for _, length in block.head.ranges(0, 1, 0, 1 << 32)
    )
    live = committed(receipts, update.plan, update.query, application_secret)
    assert merged(live, update.plan, update.query, application_secret) == spark_answer(spark, rows, key)
    agent = receipts[0].agent
    states = [block[2] for block in attach(agent).blocks() if block[4] == update.query]
    assert states == [BlockState.COMMITTED] * len(receipts), "blocks of rows outlive the commit of their epoch"
    with AgentClient(agent, update.query, query_token(application_secret, update.query)) as client:
        client.drop()


def test_rows_that_are_not_there_any_more_are_no_rows(
    spark: SparkSession, application_secret: bytes, events: str
) -> None:
    lines, columns, _ = BY_NUMBER
    update = ArrowUpdate(plan_text(lines), BEGINNING, secrets.token_bytes(16), 0, application_secret, ARENA)
    (block,) = scattered(spark, update, spark.read.parquet(events).select(columns).coalesce(1), 1, "rows")
    with AgentClient(block.agent, update.query, query_token(application_secret, update.query)) as client:
        assert client.discard(0) == 1
        # What lies there now is somebody else's.
        other = ArrowUpdate(update.plan, BEGINNING, update.query, 0, application_secret, ARENA)
        scattered(spark, other, spark.read.parquet(events).select("t", "v", "k").coalesce(1), 1, "rows")
        own = AggregateRows(update, [(block.agent, block.raw_head)], 1, 1, "shm", 30)
        with pytest.raises(CorruptBlockError, match="CRC32C"):
            run_numbered(spark, 1, own)
        client.drop()


def rows_in(update: ArrowUpdate, parts: list[fetch.Part]) -> int:
    """How many rows an owner of these parts would count."""
    accumulator = _native.Accumulator(_native.Plan(update.plan), BEGINNING)
    for raw, offset, buffer in (piece for part in parts for piece in part.pieces):
        accumulator.add_block(_native.Head(raw), offset, buffer)
    return accumulator.rows


def test_no_row_is_read_for_two_parts(
    spark: SparkSession, application_secret: bytes, events: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, columns, _ = BY_NUMBER
    update = ArrowUpdate(plan_text(lines), BEGINNING, secrets.token_bytes(16), 0, application_secret, ARENA)
    blocks = scattered(spark, update, spark.read.parquet(events).select(columns), 3, "rows")
    token = query_token(application_secret, update.query)
    monkeypatch.setattr(fetch, "PART_BYTES", 1024)
    reads = fetch.Fetch([(block.agent, block.raw_head) for block in blocks], (0, 1), "tcp", (update.query, token), 30)
    bucket = 1 << 29
    parts = list(reads.parts((bucket, 6 * bucket), bucket))
    assert [part.prefixes for part in parts] == [(number * bucket, (number + 1) * bucket) for number in range(1, 6)]
    (whole,) = reads.parts((bucket, 6 * bucket), 5 * bucket)
    assert sum(part.size for part in parts) == whole.size
    assert 0 < rows_in(update, parts) == rows_in(update, [whole]) < ROWS
    with AgentClient(blocks[0].agent, update.query, token) as client:
        client.drop()


@pytest.mark.parametrize("bits", [0, 1, 3, 5])
def test_owners_share_all_prefixes_by_whole_buckets(bits: int) -> None:
    update = ArrowUpdate("", 0, b"", 0, b"", 0)
    for owners in range(1, (1 << bits) + 1):
        own = AggregateRows(update, [], bits, owners, "shm", 30)
        cuts = [own.prefixes_of(owner) for owner in range(owners)]
        assert cuts[0][0] == 0
        assert cuts[-1][1] == 1 << 32
        assert all(before[1] == after[0] for before, after in pairwise(cuts))
        assert all(lo < hi and lo % (1 << (32 - bits)) == 0 for lo, hi in cuts)
