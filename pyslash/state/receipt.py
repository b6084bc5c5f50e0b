"""What an update task returns, the same bytes from the JVM and from Python.

int64: nanoseconds of the task | int32: length of the descriptor (both little endian) | the agent's descriptor, JSON |
head of the block
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from pyslash._native import Head
from pyslash.errors import InvalidInputError
from pyslash.protocol.descriptor import AgentDescriptor

_LENGTH = struct.Struct("<i")
_TASK = struct.Struct("<qi")


@dataclass(frozen=True)
class Receipt:
    """The agent that holds a block, the block's head, parsed and as bytes, and how long its task took."""

    agent: AgentDescriptor
    head: Head
    raw_head: bytes
    nanoseconds: int = 0

    @classmethod
    def parse(cls, receipt: bytes) -> Receipt:
        """The receipt in `receipt`.

        Raises:
            InvalidInputError: cut short, or the descriptor is none.
            CorruptBlockError: the head fails its checks.
        """
        if len(receipt) < _TASK.size:
            raise InvalidInputError(f"a receipt of {len(receipt)} bytes")
        nanoseconds, length = _TASK.unpack_from(receipt)
        end = _TASK.size + length
        if length < 0 or end > len(receipt):
            raise InvalidInputError(f"a receipt of {len(receipt)} bytes speaks of a descriptor of {length}")
        try:
            agent = AgentDescriptor.from_json(receipt[_TASK.size : end])
        except ValueError as error:
            raise InvalidInputError(f"a receipt names no agent: {error}") from None
        raw_head = receipt[end:]
        return cls(agent, Head(raw_head), raw_head, nanoseconds)

    @classmethod
    def parse_all(cls, receipts: bytes) -> list[Receipt]:
        """Receipts one after the other, each behind its length (int32, little endian).

        Raises:
            InvalidInputError, CorruptBlockError: as `parse`.
        """
        found, at = [], 0
        while at < len(receipts):
            if at + _LENGTH.size > len(receipts):
                raise InvalidInputError(f"{len(receipts) - at} bytes are left after the last receipt")
            (length,) = _LENGTH.unpack_from(receipts, at)
            at += _LENGTH.size
            if not 0 <= length <= len(receipts) - at:
                raise InvalidInputError(f"a receipt of {length} bytes where {len(receipts) - at} are left")
            found.append(cls.parse(receipts[at : at + length]))
            at += length
        return found


def reported_heads(receipts: Iterable[Receipt]) -> list[tuple[AgentDescriptor, bytes]]:
    """Agent and raw head of each block, as requests have them."""
    return [(receipt.agent, receipt.raw_head) for receipt in receipts]


def receipt_bytes(agent: AgentDescriptor, raw_head: bytes, nanoseconds: int = 0) -> bytes:
    """The bytes that `Receipt.parse` reads."""
    descriptor = agent.to_json().encode()
    return _TASK.pack(nanoseconds, len(descriptor)) + descriptor + raw_head
