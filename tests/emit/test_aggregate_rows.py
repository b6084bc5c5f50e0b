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
from pyslash.ingest.block_publisher import BlockPublisher
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


def scattered(session: SparkSession, publisher: BlockPublisher, rows: DataFrame, bits: int) -> list[Receipt]:
    """Blocks of rows."""
    plan = PlanSpec.decode(publisher.plan).of_rows(bits)
    agent = AgentSpec(secret=publisher.secret, arena_bytes=ARENA)
    spec = UpdateSpec(plan=plan, watermark_us=BEGINNING, query=publisher.query, epoch=0, agent=agent)
    receipts, _ = JvmBridge(session).update(rows, spec)
    return receipts


@pytest.mark.parametrize(
    ("case", "transport", "bits", "owners"),
    [(BY_NUMBER, "shm", 3, 2), (BY_STRING, "tcp", 4, 3), (BY_STRING, "shm", 0, 1)],
)
def test_owners_find_the_groups_of_spark(
    spark: SparkSession,
    application_secret: bytes,
    events: str,
    case: tuple[str, list[str], str],
    transport: str,
    bits: int,
    owners: int,
) -> None:
    lines, columns, key = case
    rows = spark.read.parquet(events)
    publisher = BlockPublisher(plan_text(lines), BEGINNING, secrets.token_bytes(16), 0, application_secret, ARENA)
    blocks = scattered(spark, publisher, rows.select(columns), bits)
    assert sum(block.head.rows for block in blocks) == sum(block.head.groups for block in blocks) == ROWS
    own = AggregateRows(publisher, [(block.agent, block.raw_head) for block in blocks], bits, owners, transport, 30)
    outcome = run_numbered(spark, owners, own)
    receipts = [Receipt.parse(receipt) for receipt, _ in outcome]
    assert sum(receipt.head.rows for receipt in receipts) == ROWS
    read = [shuffled for _, shuffled in outcome]
    assert {name for figures in read for name in figures} == {transport}
    # Every segment has one reader.
    assert sum(figures[transport] for figures in read) == sum(
        length for block in blocks for _, length in block.head.ranges(0, 1, 0, 1 << 32)
    )
    live = committed(receipts, publisher.plan, publisher.query, application_secret)
    assert merged(live, publisher.plan, publisher.query, application_secret) == spark_answer(spark, rows, key)
    agent = receipts[0].agent
    states = [block[2] for block in attach(agent).blocks() if block[4] == publisher.query]
    assert states == [BlockState.COMMITTED] * len(receipts), "blocks of rows outlive the commit of their epoch"
    with AgentClient(agent, publisher.query, query_token(application_secret, publisher.query)) as client:
        client.drop()


def test_rows_that_are_not_there_any_more_are_no_rows(
    spark: SparkSession, application_secret: bytes, events: str
) -> None:
    lines, columns, _ = BY_NUMBER
    publisher = BlockPublisher(plan_text(lines), BEGINNING, secrets.token_bytes(16), 0, application_secret, ARENA)
    (block,) = scattered(spark, publisher, spark.read.parquet(events).select(columns).coalesce(1), 1)
    with AgentClient(block.agent, publisher.query, query_token(application_secret, publisher.query)) as client:
        assert client.discard(0) == 1
        # What lies there now is somebody else's.
        other = BlockPublisher(publisher.plan, BEGINNING, publisher.query, 0, application_secret, ARENA)
        scattered(spark, other, spark.read.parquet(events).select("t", "v", "k").coalesce(1), 1)
        own = AggregateRows(publisher, [(block.agent, block.raw_head)], 1, 1, "shm", 30)
        with pytest.raises(CorruptBlockError, match="CRC32C"):
            run_numbered(spark, 1, own)
        client.drop()


def rows_in(publisher: BlockPublisher, parts: list[fetch.Part]) -> int:
    """How many rows an owner of these parts would count."""
    accumulator = _native.Accumulator(_native.Plan(publisher.plan), BEGINNING)
    for raw, offset, buffer in (piece for part in parts for piece in part.pieces):
        accumulator.add_block(_native.Head(raw), offset, buffer)
    return accumulator.rows


def test_no_row_is_read_for_two_parts(
    spark: SparkSession, application_secret: bytes, events: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, columns, _ = BY_NUMBER
    publisher = BlockPublisher(plan_text(lines), BEGINNING, secrets.token_bytes(16), 0, application_secret, ARENA)
    blocks = scattered(spark, publisher, spark.read.parquet(events).select(columns), 3)
    token = query_token(application_secret, publisher.query)
    monkeypatch.setattr(fetch, "PART_BYTES", 1024)
    reads = fetch.Fetch(
        [(block.agent, block.raw_head) for block in blocks], (0, 1), "tcp", (publisher.query, token), 30
    )
    bucket = 1 << 29
    parts = list(reads.parts((bucket, 6 * bucket), bucket))
    assert [part.prefixes for part in parts] == [(number * bucket, (number + 1) * bucket) for number in range(1, 6)]
    (whole,) = reads.parts((bucket, 6 * bucket), 5 * bucket)
    assert sum(part.size for part in parts) == whole.size
    assert 0 < rows_in(publisher, parts) == rows_in(publisher, [whole]) < ROWS
    with AgentClient(blocks[0].agent, publisher.query, token) as client:
        client.drop()


@pytest.mark.parametrize("bits", [0, 1, 3, 5])
def test_owners_share_all_prefixes_by_whole_buckets(bits: int) -> None:
    publisher = BlockPublisher("", 0, b"", 0, b"", 0)
    for owners in range(1, (1 << bits) + 1):
        own = AggregateRows(publisher, [], bits, owners, "shm", 30)
        cuts = [own.prefixes_of(owner) for owner in range(owners)]
        assert cuts[0][0] == 0
        assert cuts[-1][1] == 1 << 32
        assert all(before[1] == after[0] for before, after in pairwise(cuts))
        assert all(lo < hi and lo % (1 << (32 - bits)) == 0 for lo, hi in cuts)
