"""What an update task returns, the same bytes from the row bridge and from the Arrow path.

int32 (little endian): length of the descriptor | the agent's descriptor, JSON | head of the block
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pyslash._native import Head
from pyslash.errors import InvalidInputError
from pyslash.protocol.descriptor import AgentDescriptor

_LENGTH = struct.Struct("<i")


@dataclass(frozen=True)
class Receipt:
    """The agent that holds a block, and the block's head, parsed and as bytes."""

    agent: AgentDescriptor
    head: Head
    raw_head: bytes

    @classmethod
    def parse(cls, receipt: bytes) -> Receipt:
        """The receipt in `receipt`.

        Raises:
            InvalidInputError: cut short, or the descriptor is none.
            CorruptBlockError: the head fails its checks.
        """
        if len(receipt) < _LENGTH.size:
            raise InvalidInputError(f"a receipt of {len(receipt)} bytes")
        (length,) = _LENGTH.unpack_from(receipt)
        end = _LENGTH.size + length
        if length < 0 or end > len(receipt):
            raise InvalidInputError(f"a receipt of {len(receipt)} bytes speaks of a descriptor of {length}")
        try:
            agent = AgentDescriptor.from_json(receipt[_LENGTH.size : end])
        except ValueError as error:
            raise InvalidInputError(f"a receipt names no agent: {error}") from None
        raw_head = receipt[end:]
        return cls(agent, Head(raw_head), raw_head)

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


def receipt_bytes(agent: AgentDescriptor, raw_head: bytes) -> bytes:
    """The bytes that `Receipt.parse` reads."""
    descriptor = agent.to_json().encode()
    return _LENGTH.pack(len(descriptor)) + descriptor + raw_head
