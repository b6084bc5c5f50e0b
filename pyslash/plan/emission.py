"""Which groups of an aggregation an epoch emits, and which panes are then no longer needed."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from pyslash.plan.output_mode import OutputMode
from pyslash.plan.window import TimeWindow, first_live_pane, windows_between
from pyslash.units import AFTER_ALL_PANES, Micros

EVERY_END_US: Final = Micros((1 << 63) - 1)


@dataclass(frozen=True)
class Emission:
    """What Spark's output modes mean for windows of event time. Times are microseconds.

    `new_only`: in any mode an epoch emits the groups that it is the first one to have rows of, and no others.
    """

    mode: OutputMode
    window: TimeWindow
    has_keys: bool
    new_only: bool = False

    @property
    def as_windows_close(self) -> bool:
        """Whether a group is emitted when its window closes; else while it is open: groups are worth keeping then."""
        return self.mode is OutputMode.APPEND and not self.new_only

    @property
    def is_global(self) -> bool:
        """Whether there is one group, that of all rows: it exists, and Spark updates it, even if there are none."""
        return not self.has_keys and self.window.is_all_time and not self.new_only

    @property
    def changes_only(self) -> bool:
        """Whether only groups with rows in the epoch are emitted. A global group always is, as in Spark."""
        return self.new_only or (self.mode is OutputMode.UPDATE and not self.is_global)

    @property
    def keeps_groups(self) -> bool:
        """Whether groups are merged before they are complete, and so are kept where that is done."""
        return not self.as_windows_close

    @property
    def keeps_changes(self) -> bool:
        """Whether an epoch's blocks are kept apart from others until the next epoch."""
        return self.changes_only

    def looked_at(self, emitted_us: Micros, watermark_us: Micros, pane: int) -> tuple[int, int]:
        """The panes (first, end) in which there may be groups to emit that the epoch has no rows of.

        The arguments are those of `windows`, for which those outside need not be found.
        """
        if self.changes_only:
            return AFTER_ALL_PANES, AFTER_ALL_PANES
        last = watermark_us if self.as_windows_close else AFTER_ALL_PANES
        return first_live_pane(self.window, emitted_us), last

    def windows(
        self, held: set[int], changed: set[int], emitted_us: Micros, watermark_us: Micros, pane: int
    ) -> list[int]:
        """Starts of the windows of which an epoch emits groups, ascending.

        Args:
            held: panes that there are, of those that are `looked_at`.
            changed: those that the epoch has rows of.
            emitted_us: windows that end by then are over, and none of them is emitted.
            watermark_us: where groups are emitted as windows close, those that end by then are, and no others.
            pane: of sessions, that which holds them.
        """
        if self.as_windows_close:
            return windows_between(self.window, held, emitted_us, watermark_us)
        return windows_between(self.window, changed if self.changes_only else held, emitted_us)

    def first_live_pane(self, evicted_us: Micros, pane: int) -> int:
        """Panes before this one are no longer needed once windows that end by this time are evicted.

        `pane` is, of sessions, that which holds them.
        """
        return first_live_pane(self.window, evicted_us)

    def late_windows(self, pane: int, emitted_us: Micros) -> int:
        """Windows that groups of this pane are too late for: Spark drops them of each."""
        if self.new_only:
            return 0
        return bisect_right(self.window.starts_covering(pane), emitted_us - self.window.size_us)

    def final_by(self, begin: int) -> int:
        """The watermark by which a group may have been emitted for good, and forgotten, whose pane begins then: what
        comes to it later cannot be told from what is new.
        """
        return self.window.starts_covering(begin).start + self.window.size_us

    def kept_panes(self, evicted_us: Micros, pane: int) -> tuple[int, int]:
        """What may be read of blocks to keep their groups where they are merged: first and end, microseconds.

        The arguments are those of `first_live_pane`.
        """
        return self.first_live_pane(evicted_us, pane), AFTER_ALL_PANES

    @property
    def needs_all_parts(self) -> bool:
        """Whether all that there is has to be put together before anything can be emitted."""
        return False


@dataclass(frozen=True)
class EpochEmission(Emission):
    """What an epoch emits follows from its own blocks, not from windows of event time: no pane is a window's."""

    @property
    def as_windows_close(self) -> bool:
        """No."""
        return False

    @property
    def keeps_changes(self) -> bool:
        """Yes: the epoch's blocks are read alone."""
        return True

    def looked_at(self, emitted_us: Micros, watermark_us: Micros, pane: int) -> tuple[int, int]:
        """None."""
        return pane, pane

    def late_windows(self, pane: int, emitted_us: Micros) -> int:
        """None: there are no windows to be late for."""
        return 0
