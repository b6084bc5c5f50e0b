"""Where late rows come from: which input of an operator, and which partitions of Kafka topics.

A watermark of Spark's follows the newest event time of an input, whichever partition it is in. So no partition holds it
back: rows of a partition that is behind the others are dropped as late.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyslash.spark.jvm_bridge import TaskRead
from pyslash.units import Epoch

MOST_PARTITIONS = 8
"""A topic may have thousands: as many are told of, those that lose most."""


@dataclass(frozen=True)
class LateFigures:
    """`late_by_input` and `partitions`, as `pyslash.epoch_progress.EpochProgress` describes them."""

    late_by_input: list[int] = field(default_factory=list)
    partitions: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _Partition:
    """A partition as one input reads it: `late_rows` of its last epoch with rows, `late_rows_before` of the others."""

    newest_ms: int
    last_epoch: Epoch
    late_rows: int = 0
    late_rows_before: int = 0

    def take(self, epoch: Epoch, late_rows: int, newest_ms: int) -> None:
        if epoch != self.last_epoch:
            self.late_rows_before += self.late_rows
            self.late_rows, self.last_epoch = 0, epoch
        self.late_rows += late_rows
        self.newest_ms = max(self.newest_ms, newest_ms)


class LateInputs:
    """What one operator has read, since its query started. An epoch that is replayed is not counted again."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[int, str], _Partition] = {}
        self._epoch = Epoch(-1)
        self._by_input = [0, 0]
        self._has_inputs = False

    def take(self, epoch: Epoch, reads: Sequence[TaskRead]) -> None:
        """What the tasks of an epoch have read, once it is certain: no attempt that fails comes here."""
        self._epoch, self._by_input = epoch, [0, 0]
        for read in reads:
            self._by_input[read.input] += read.late_rows
            self._has_inputs |= read.input > 0
            if read.partition is not None and read.newest_ms is not None:
                place = read.input, read.partition
                known = self._partitions.setdefault(place, _Partition(read.newest_ms, epoch))
                known.take(epoch, read.late_rows, read.newest_ms)

    def figures(self, epoch: Epoch) -> LateFigures:
        """As of the end of an epoch, which may have had no rows, or have been replayed."""
        by_input = self._by_input if self._has_inputs and self._epoch == epoch else []
        newest: dict[int, int] = {}
        for (number, _), one in self._partitions.items():
            newest[number] = max(newest.get(number, one.newest_ms), one.newest_ms)
        told = [
            {
                "partition": name,
                "input": number,
                "newest_ms": one.newest_ms,
                "behind_ms": newest[number] - one.newest_ms,
                "late_rows": one.late_rows if one.last_epoch == epoch else 0,
                "late_rows_in_all": one.late_rows + one.late_rows_before,
                "last_epoch": one.last_epoch,
            }
            for (number, name), one in self._partitions.items()
        ]
        return LateFigures(by_input, heapq.nsmallest(MOST_PARTITIONS, told, key=_order))


def _order(partition: dict[str, Any]) -> tuple[int, int, int, str]:
    """Those that have lost most in the epoch come first, then those that are furthest behind."""
    return -partition["late_rows"], -partition["behind_ms"], -partition["late_rows_in_all"], partition["partition"]
