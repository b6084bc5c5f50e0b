"""The numbers of each unit that are none of it: what stands before all of them, or behind."""

from __future__ import annotations

from typing import Final

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1  # the core keeps both units in 64 bits

# Panes, by their start in microseconds. A query that has ended releases the panes before `AFTER_ALL_PANES`.
BEFORE_ALL_PANES: Final = _LEAST
AFTER_ALL_PANES: Final = _MOST
ALL_PANES: Final = (BEFORE_ALL_PANES, AFTER_ALL_PANES)

# Spark counts epochs from zero by ones. What carries `BEYOND_EPOCHS` in the arena's table is dropped by no commit: the
# result of a compaction that waits to be swapped in, a replica, a restored block. A commit as of `BEFORE_ALL_EPOCHS`
# drops nothing.
BEFORE_ALL_EPOCHS: Final = _LEAST
BEYOND_EPOCHS: Final = _MOST
LAST_EPOCH: Final = BEYOND_EPOCHS - 1
