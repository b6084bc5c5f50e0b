"""Fixed windows of event time."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


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

    def starts_covering(self, pane: int) -> range:
        """Starts of the windows that contain the pane that begins at `pane`, ascending.

        >>> list(TimeWindow(10, 5, 0).starts_covering(12))
        [5, 10]
        """
        last = pane - (pane - self.start_offset_us) % self.slide_us
        first = last - ((last + self.size_us - 1 - pane) // self.slide_us) * self.slide_us
        return range(first, last + 1, self.slide_us)
