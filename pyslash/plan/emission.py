"""Which groups of an aggregation reach the sink in an epoch, and which panes are then needed no more."""

from __future__ import annotations

from dataclasses import dataclass

from pyslash.plan.output_mode import OutputMode
from pyslash.plan.window import NO_WATERMARK_US, TimeWindow, first_live_pane, windows_between


@dataclass(frozen=True)
class Emission:
    """What Spark's output modes mean for windows of event time. Times are microseconds."""

    mode: OutputMode
    window: TimeWindow
    has_keys: bool

    @property
    def changes_only(self) -> bool:
        """Whether only groups that an epoch has rows of are emitted. A global group always is: Spark has it so."""
        return self.mode is OutputMode.UPDATE and (self.has_keys or not self.window.is_all_time)

    def windows(self, held: set[int], changed: set[int], emitted_us: int, watermark_us: int) -> list[int]:
        """Starts of the windows of which an epoch emits groups, ascending.

        Args:
            held: panes that there are.
            changed: those that the epoch has rows of.
            emitted_us: windows that end by then are over, and none of them is emitted.
            watermark_us: in append mode windows that end by then are emitted, and no others.
        """
        if self.mode is OutputMode.APPEND:
            return windows_between(self.window, held, emitted_us, watermark_us)
        return windows_between(self.window, changed if self.changes_only else held, emitted_us)

    def first_live_pane(self, evicted_us: int) -> int:
        """Panes before this one are needed no more, once windows that end by this time are evicted."""
        return first_live_pane(self.window, evicted_us) if evicted_us != NO_WATERMARK_US else NO_WATERMARK_US
