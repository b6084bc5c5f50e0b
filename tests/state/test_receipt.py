"""Receipts: what a task returns, parsed with care."""

from __future__ import annotations

import os

import pytest

from pyslash import _native
from pyslash.errors import CorruptBlockError, InvalidInputError
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.receipt import Receipt, receipt_bytes
from tests.agent.blocks import PLAN, QUERY, rows

AGENT = AgentDescriptor(7, 8, 9, 1 << 20, "0f" * 16, "/r/a.sock", "h", 1234, "boot", "/r/a.log", "")


@pytest.fixture
def head() -> bytes:
    """Of a block in an arena of this process."""
    fd = os.memfd_create("test")
    arena = _native.Arena.create(fd, 8 << 20, bytes(16))
    os.close(fd)
    accumulator = _native.Accumulator(_native.Plan(PLAN), -(1 << 62))
    accumulator.add(rows([0], range(10)))
    return bytes(accumulator.seal(arena, QUERY, 4, 5))


def test_a_receipt_comes_back_as_it_was(head: bytes) -> None:
    receipt = Receipt.parse(receipt_bytes(AGENT, head, 17))
    assert receipt.agent == AGENT
    assert receipt.nanoseconds == 17
    assert receipt.raw_head == head
    assert (receipt.head.query, receipt.head.epoch, receipt.head.attempt, receipt.head.rows) == (QUERY, 4, 5, 10)


def test_a_receipt_that_is_cut_or_bent_is_refused(head: bytes) -> None:
    whole = receipt_bytes(AGENT, head)
    for length in (0, 3, 4, 11, 12, 40, len(whole) - len(head), len(whole) - 1):
        with pytest.raises((InvalidInputError, CorruptBlockError)):
            Receipt.parse(whole[:length])
    for bent in (
        whole[:8] + b"\xff\xff\xff\xff" + whole[12:],
        whole.replace(b'"pid"', b'"pit"'),
        whole.replace(b":7,", b":x,"),
    ):
        with pytest.raises(InvalidInputError):
            Receipt.parse(bent)


@pytest.mark.parametrize("field", ["pid", "incarnation"])
def test_a_descriptor_has_its_fields_and_types(field: str) -> None:
    record = AGENT.to_record()
    for bad in ({**record, field: None}, {**record, field: [1]}, {**record, "more": 1}):
        with pytest.raises(ValueError, match="descriptor"):
            AgentDescriptor.from_json(__import__("json").dumps(bad))


def test_several_receipts_come_back_in_their_order(head: bytes) -> None:
    one = receipt_bytes(AGENT, head)
    joined = b"".join(len(each).to_bytes(4, "little") + each for each in (one, one))
    assert [(each.agent, each.raw_head) for each in Receipt.parse_all(joined)] == [(AGENT, head)] * 2
    assert Receipt.parse_all(b"") == []
    for length in (1, 3, 4, len(one), len(one) + 5, len(joined) - 1):
        with pytest.raises((InvalidInputError, CorruptBlockError)):
            Receipt.parse_all(joined[:length])
