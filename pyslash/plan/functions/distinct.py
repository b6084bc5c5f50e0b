"""`approx_count_distinct`: native code keeps the registers of Spark's own HyperLogLog++, Spark estimates."""

from __future__ import annotations

from pyslash.plan.functions.aggregate import Aggregate, Call
from pyslash.plan.reasons import Uncovered

_REGISTERS_A_WORD = 10
_BITS = {(1 << bits) // _REGISTERS_A_WORD + 1: bits for bits in range(4, 19)}


def read(call: Call) -> Aggregate:
    """Its input is the hash that Spark takes (`io.pyslash.catalyst.StreamingAggregate`).

    The first bits of it choose a register.

    Raises:
        Uncovered: its error is so small that it has more registers than native code keeps.
    """
    bits = _BITS.get(int(call.java.aggBufferSchema().length()))
    if bits is None:
        raise Uncovered(f"{call.sql} keeps more registers than are covered yet")
    return Aggregate("approx_count_distinct", False, call.sql, str(bits))


def result_bytes(bits: int) -> int:
    """Of a group's registers as a merge gives them: all words of them, however few a block lists."""
    return ((1 << bits) // _REGISTERS_A_WORD + 1) * 8
