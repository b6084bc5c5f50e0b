"""The units of numbers, and of each the numbers that are none of it: what stands before all of them, or behind."""

from __future__ import annotations

from typing import Final, NewType

Epoch = NewType("Epoch", int)
"""Spark's number of a micro-batch."""
Run = NewType("Run", int)
"""A recovery of a query: a later one has a larger number."""
Micros = NewType("Micros", int)
"""Microseconds: a time since 1970, or how long something is."""
ArenaOffset = NewType("ArenaOffset", int)
"""A place in an agent's arena, in bytes; that of a block on disk is beyond every arena."""

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1  # the core keeps both units in 64 bits

# Panes, by their start in microseconds. A query that has ended releases the panes before `AFTER_ALL_PANES`.
BEFORE_ALL_PANES: Final = _LEAST
AFTER_ALL_PANES: Final = _MOST
ALL_PANES: Final = (BEFORE_ALL_PANES, AFTER_ALL_PANES)

# Spark counts epochs from zero by ones; `NO_EPOCH` is the last one before the first. What has `BEYOND_EPOCHS` in the
# arena's table is dropped by no commit: the result of a compaction that waits to be swapped in, a replica, a restored
# block. A commit as of `BEFORE_ALL_EPOCHS` drops nothing.
BEFORE_ALL_EPOCHS: Final = Epoch(_LEAST)
BEYOND_EPOCHS: Final = Epoch(_MOST)
LAST_EPOCH: Final = Epoch(BEYOND_EPOCHS - 1)
NO_EPOCH: Final = Epoch(-1)

# An agent may hold what is of no run, which has the number `BEFORE_ALL_RUNS`; even that is not over by `NO_RUN`.
BEFORE_ALL_RUNS: Final = Run(0)
NO_RUN: Final = Run(-1)
