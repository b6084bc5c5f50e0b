"""Which groups of an aggregation an epoch emits, and which panes are then no longer needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyslash.plan.output_mode import OutputMode
from pyslash.plan.window import TimeWindow, first_live_pane, windows_between

EVERY_END_US: Final = (1 << 63) - 1


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

    def windows(self, held: set[int], changed: set[int], emitted_us: int, watermark_us: int, pane: int) -> list[int]:
        """Starts of the windows of which an epoch emits groups, ascending.

        Args:
            held: panes that there are.
            changed: those that the epoch has rows of.
            emitted_us: windows that end by then are over, and none of them is emitted.
            watermark_us: where groups are emitted as windows close, those that end by then are, and no others.
            pane: of sessions, that which holds them.
        """
        if self.as_windows_close:
            return windows_between(self.window, held, emitted_us, watermark_us)
        return windows_between(self.window, changed if self.changes_only else held, emitted_us)

    def first_live_pane(self, evicted_us: int, pane: int) -> int:
        """Panes before this one are no longer needed once windows that end by this time are evicted.

        `pane` is, of sessions, that which holds them.
        """
        return first_live_pane(self.window, evicted_us)

    def late_windows(self, pane: int, emitted_us: int) -> int:
        """Windows that groups of this pane are too late for: Spark drops them of each."""
        return (
            0
            if self.new_only
            else sum(start + self.window.size_us <= emitted_us for start in self.window.starts_covering(pane))
        )


@dataclass(frozen=True)
class JoinEmission(Emission):
    """The same for joins: a pane is of the watermark by which rows are evicted, and what is emitted is no pane's."""

    @property
    def as_windows_close(self) -> bool:
        """No."""
        return False

    @property
    def keeps_changes(self) -> bool:
        """Yes: whoever keeps rows reads an epoch's blocks alone."""
        return True

    def windows(self, held: set[int], changed: set[int], emitted_us: int, watermark_us: int, pane: int) -> list[int]:
        """None."""
        return []

    def late_windows(self, pane: int, emitted_us: int) -> int:
        """None."""
        return 0


@dataclass(frozen=True)
class SessionEmission(Emission):
    """The same for sessions.

    One pane holds all of them, whatever their times: which parts make a session is known only where all are merged.
    From time to time open sessions are rewritten, into a pane with a greater number (docs/design/028).
    """

    @property
    def keeps_groups(self) -> bool:
        """Yes: in append mode too, a session is complete only once nothing can extend it any more."""
        return True

    @property
    def keeps_changes(self) -> bool:
        """Yes: whoever keeps sessions reads an epoch's blocks alone."""
        return True

    def windows(self, held: set[int], changed: set[int], emitted_us: int, watermark_us: int, pane: int) -> list[int]:
        """The pane that holds the sessions, if there are any: they are kept up to date in every epoch."""
        return [pane] if pane in held else []

    def first_live_pane(self, evicted_us: int, pane: int) -> int:
        """The pane that holds the sessions."""
        return pane

    def late_windows(self, pane: int, emitted_us: int) -> int:
        """None."""
        return 0

    def closing_us(self, watermark_us: int) -> int:
        """Sessions that end by this time are emitted."""
        return EVERY_END_US if self.mode is OutputMode.COMPLETE else watermark_us
