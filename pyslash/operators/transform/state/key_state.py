"""The state of one key: its variables and its timers, and the bytes that they are kept as.

    next timer (int64, ms) | next expiry (int64, ms) | the variables and timers, by `marshal`

The two times stand in front, so that a home finds the keys that are due without reading their state. `marshal` has the
plain values that `RowForm` makes, and runs no code when it reads them.
"""

from __future__ import annotations

import marshal
import struct
from collections.abc import Iterable
from itertools import chain
from operator import index, itemgetter

from pyslash.operators.transform.state.values import Values

NEVER_MS = (1 << 63) - 1
_HEAD = struct.Struct("<qq")
_MARSHAL = 4  # the newest version that all Pythons from 3.4 on read

# (value, when it expires)
Entry = tuple[Values, int]


class KeyState:
    """`values`, `lists` and `maps` are by the name of the variable; `timers` are milliseconds."""

    __slots__ = ("lists", "maps", "timers", "values")

    def __init__(self) -> None:
        self.values: dict[str, Entry] = {}
        self.lists: dict[str, list[Entry]] = {}
        self.maps: dict[str, dict[Values, Entry]] = {}
        self.timers: set[int] = set()

    @classmethod
    def read(cls, kept: bytes) -> KeyState:
        """Inverse of `kept`."""
        found = cls.__new__(cls)
        found.values, found.lists, found.maps, timers = marshal.loads(kept[_HEAD.size :])
        found.timers = set()
        # Of NumPy's integers, earlier builds kept the bytes.
        if timers:
            found.timers = {one if type(one) is int else int.from_bytes(one, "little", signed=True) for one in timers}
        return found

    def kept(self) -> bytes:
        """Its bytes; none if there is nothing to keep."""
        if self.lists:
            self.lists = {name: entries for name, entries in self.lists.items() if entries}
        if self.maps:
            self.maps = {name: entries for name, entries in self.maps.items() if entries}
        if not (self.values or self.lists or self.maps or self.timers):
            return b""
        timers = sorted(self.timers)
        head = _HEAD.pack(timers[0] if timers else NEVER_MS, self._next_expiry())
        return head + marshal.dumps((self.values, self.lists, self.maps, timers), _MARSHAL)

    def drop(self, names: Iterable[str]) -> None:
        """Forget these variables."""
        for name in names:
            for of_kind in (self.values, self.lists, self.maps):
                of_kind.pop(name, None)

    def _next_expiry(self) -> int:
        first = NEVER_MS
        for _, expiry in self.values.values():
            if expiry < first:
                first = expiry
        if self.lists or self.maps:
            entries = chain(*self.lists.values(), *map(dict.values, self.maps.values()))
            first = min(first, min(map(itemgetter(1), entries), default=NEVER_MS))
        return first

    def expire(self, now_ms: int) -> None:
        """Forget what has expired by now."""
        if self._next_expiry() > now_ms:
            return
        self.values = {name: entry for name, entry in self.values.items() if entry[1] > now_ms}
        self.lists = {name: [one for one in entries if one[1] > now_ms] for name, entries in self.lists.items()}
        self.maps = {
            name: {key: one for key, one in entries.items() if one[1] > now_ms} for name, entries in self.maps.items()
        }


def times_of(kept: bytes) -> tuple[int, int]:
    """When a key's first timer fires, and when its first value expires."""
    first, expiry = _HEAD.unpack_from(kept)
    return first, expiry


def time_of(time_ms: int) -> int:
    """The time of a timer, as Python's number.

    Raises:
        ValueError: the JVM has no such number, so neither has Spark.
    """
    time_ms = index(time_ms)
    if not -NEVER_MS <= time_ms <= NEVER_MS:
        raise ValueError(f"Value out of range: {time_ms}")
    return time_ms
