"""What the fields of messages may hold: types that say their bounds, for whoever reads bytes of others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pyslash import units

MAX_OFFSETS = 16384  # entries of the arena's table
MAX_RANGES = 65536
MAX_AGENTS = 4096
MAX_PLAN_BYTES = 1 << 20
MAX_SMALL_BYTES = 64 << 10  # of a request with neither a plan nor ranges of blocks
MAX_RANGES_BYTES = 1 << 20  # of one with ranges of blocks: some 20,000 of them
_INT64 = 1 << 63
_GID = re.compile(r"^[0-9a-f]{4}(:[0-9a-f]{4}){7}$")
_INCARNATION = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[0-9a-z-]{1,100}\.arrow")

Check = Callable[[Any], bool]
"""Whether a value read from JSON is of the right type and within its bounds."""


def integer(low: int, high: int) -> Check:
    """From `low` on, below `high`."""
    return lambda value: type(value) is int and low <= value < high


def list_of(item: Check, most: int) -> Check:
    """At most so many."""
    return lambda value: type(value) is list and len(value) <= most and all(item(one) for one in value)


def text(most: int) -> Check:
    """ASCII, of at most so many characters."""
    return lambda value: type(value) is str and value.isascii() and len(value) <= most


def tuple_of(*items: Check) -> Check:
    """A list of exactly these, as JSON has no tuples."""

    def holds(value: Any) -> bool:
        if type(value) is not list or len(value) != len(items):
            return False
        return all(check(one) for check, one in zip(items, value, strict=True))

    return holds


def _matching(pattern: re.Pattern[str]) -> Check:
    return lambda value: type(value) is str and pattern.fullmatch(value) is not None


def _path(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= 4096


_unsigned, _crc, _size = integer(0, _INT64), integer(0, 1 << 32), integer(1, _INT64)
_file_name = _matching(_NAME)
is_incarnation = _matching(_INCARNATION)
"""Of an agent."""
_block = tuple_of(_unsigned, _crc)
_ranges = list_of(tuple_of(_unsigned, _size), MAX_RANGES)
_landings = list_of(tuple_of(_unsigned, _unsigned, _ranges), MAX_OFFSETS)

Flag = Annotated[bool, lambda value: type(value) is bool]
Unsigned = Annotated[int, _unsigned]
Signed = Annotated[int, integer(-_INT64, _INT64)]
Size = Annotated[int, _size]
Epoch = Annotated[units.Epoch, integer(0, _INT64 - 1)]
Run = Annotated[units.Run, _unsigned]
Offset = Annotated[units.ArenaOffset, _unsigned]
Offsets = Annotated[list[units.ArenaOffset], list_of(_unsigned, MAX_OFFSETS)]
Heads = Annotated[list[int], list_of(_crc, MAX_OFFSETS)]
Blocks = Annotated[list[list[int]], list_of(_block, MAX_OFFSETS)]
Rooms = Annotated[list[list[int]], list_of(tuple_of(_unsigned, _size, _crc), MAX_OFFSETS)]
Replicas = Annotated[list[list[Any]], list_of(tuple_of(is_incarnation, list_of(_block, MAX_OFFSETS)), MAX_AGENTS)]
Reads = Annotated[list[list[Any]], list_of(tuple_of(_unsigned, _ranges), MAX_OFFSETS)]
Landings = Annotated[list[list[Any]], list_of(tuple_of(_path, _landings), MAX_AGENTS)]
Files = Annotated[list[list[Any]], list_of(tuple_of(_file_name, _unsigned, _unsigned), MAX_OFFSETS)]
PlanText = Annotated[str, text(MAX_PLAN_BYTES)]
Incarnation = Annotated[str, is_incarnation]
Incarnations = Annotated[list[str], list_of(is_incarnation, MAX_AGENTS)]
Path = Annotated[str, _path]
OptionalPath = Annotated[str, lambda value: value == "" or _path(value)]
FileName = Annotated[str, _file_name]
Word = Annotated[str, text(32)]
QueuePair = Annotated[int, integer(0, 1 << 24)]
Gid = Annotated[str, _matching(_GID)]
