"""The steady part of a stream: what is measured once its state is full and its JVM warm.

A stream's first micro-batches are not what its users wait for: the JVM compiles, windows fill, stores open. They are
run and not counted. What is counted goes from the start of one micro-batch to the end of another, so that whatever
stands between two micro-batches is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Entry = dict[str, Any]  # of `StreamingQuery.recentProgress`


@dataclass(frozen=True)
class Steady:
    """When the steady part begins and when it has been long enough.

    It begins after `warm_batches` micro-batches and `warm_s` seconds, whichever come later. It ends with the stream;
    or after `seconds`, of at least `batches` micro-batches; or after `most_s`, of a slow engine.
    """

    warm_batches: int = 8
    warm_s: float = 10.0
    batches: int = 100
    seconds: float = 60.0
    most_s: float = 90.0

    def part(self, entries: Sequence[Entry]) -> list[Entry]:
        """The micro-batches that count, of all that were executed, in their order."""
        if not entries:
            return []
        warm = _start(entries[0]) + self.warm_s
        return [entry for number, entry in enumerate(entries) if number >= self.warm_batches and _start(entry) >= warm]

    def is_over(self, entries: Sequence[Entry]) -> bool:
        """Whether the part is long enough."""
        part = self.part(entries)
        if not part:
            return False
        begin, end = bounds(part)
        lasted = end - begin
        return lasted >= self.most_s or (lasted >= self.seconds and len(part) >= self.batches)


def bounds(entries: Sequence[Entry]) -> tuple[float, float]:
    """When the first micro-batch began and the last one ended, in seconds since 1970."""
    return _start(entries[0]), _start(entries[-1]) + entries[-1]["durationMs"]["triggerExecution"] / 1000


def executed(entries: Sequence[Entry]) -> list[Entry]:
    """Without what Spark reports of triggers that ran nothing."""
    return [entry for entry in entries if "addBatch" in entry["durationMs"]]


def _start(entry: Entry) -> float:
    return datetime.fromisoformat(entry["timestamp"]).timestamp()
