"""Fixed windows of event time: plain arithmetic on microseconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from math import gcd, inf
from typing import Final

from pyslash.units import Micros

NO_WATERMARK_US: Final = Micros(-(1 << 63))
_LONGEST_US = 1 << 59  # that native code takes: 18 thousand years


@dataclass(frozen=True)
class TimeWindow:
    """An event-time window, in microseconds, as Spark defines it: starts at `start_offset + k * slide`."""

    size_us: int
    slide_us: int
    start_offset_us: int

    @property
    def pane_us(self) -> int:
        """Width of a pane: the longest slice of event time that no window boundary cuts."""
        return gcd(self.size_us, self.slide_us)

    @property
    def overlap(self) -> int:
        """Windows that a moment is part of, at most."""
        return -(-self.size_us // self.slide_us)

    @classmethod
    def all_time(cls) -> TimeWindow:
        """The one window of groups that have none: their rows are all of the moment 0."""
        return cls(_LONGEST_US, _LONGEST_US, 0)

    @property
    def is_all_time(self) -> bool:
        """Whether it stands for no window."""
        return self.size_us == _LONGEST_US

    def __str__(self) -> str:
        """As users read it."""
        if self.is_all_time:
            return "no window"
        size, slide, offset = (timedelta(microseconds=us) for us in (self.size_us, self.slide_us, self.start_offset_us))
        return f"{size}{'' if size == slide else f' sliding by {slide}'}{f' from {offset}' if offset else ''}"

    def starts_covering(self, pane: int) -> range:
        """Starts of the windows that contain the pane that begins at `pane`, ascending.

        >>> list(TimeWindow(10, 5, 0).starts_covering(12))
        [5, 10]
        """
        last = pane - (pane - self.start_offset_us) % self.slide_us
        first = last - ((last + self.size_us - 1 - pane) // self.slide_us) * self.slide_us
        return range(first, last + 1, self.slide_us)


def windows_between(
    window: TimeWindow, panes: Iterable[int], after_us: Micros, until_us: Micros | None = None
) -> list[int]:
    """Starts of the windows that hold a pane and end in (after, until], ascending; None: however late they end.

    The work is that of sorting the panes and of listing the result, however many windows a pane is part of.

    >>> windows_between(TimeWindow(10, 5, 0), panes=[0, 5, 10], after_us=0, until_us=15)
    [-5, 0, 5]
    >>> windows_between(TimeWindow(10, 5, 0), panes=[0, 5], after_us=NO_WATERMARK_US)
    [-5, 0, 5]
    """
    first_start = first_live_pane(window, after_us)
    end = inf if until_us is None else first_live_pane(window, until_us)  # the first start that stays open
    # Ascending panes have ascending starts, so that each joins the last run of starts or begins the next one.
    runs: list[range] = []
    for pane in sorted(panes):
        covering = window.starts_covering(pane)
        first = max(covering.start, first_start)
        stop = int(min(covering.stop - 1 + window.slide_us, end))
        if first >= stop:
            continue
        if runs and first <= runs[-1].stop:
            runs[-1] = range(runs[-1].start, stop, window.slide_us)
        else:
            runs.append(range(first, stop, window.slide_us))
    return list(chain.from_iterable(runs))


def first_live_pane(window: TimeWindow, emitted_us: Micros) -> int:
    """Panes below this one belong to no window that ends after `emitted_us`: it is the start of the first that does.

    >>> first_live_pane(TimeWindow(10, 5, 0), emitted_us=14)
    5

    Without a watermark every pane there can be is alive.
    """
    if emitted_us == NO_WATERMARK_US:
        return NO_WATERMARK_US
    last_closed = (emitted_us - window.size_us - window.start_offset_us) // window.slide_us
    return window.start_offset_us + (last_closed + 1) * window.slide_us
