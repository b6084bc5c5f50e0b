"""Which windows an epoch closes, and which panes are then dead: plain arithmetic on microseconds."""

from __future__ import annotations

from collections.abc import Iterable

from pyslash.plan.window import TimeWindow


def closed_windows(window: TimeWindow, panes: Iterable[int], emitted_us: int, watermark_us: int) -> list[int]:
    """Starts of the windows to emit, ascending: those that hold a pane and end in (emitted, watermark].

    A window is emitted once, in the first epoch whose end moves the watermark past its own end.

    >>> closed_windows(TimeWindow(10, 5, 0), panes=[0, 5, 10], emitted_us=0, watermark_us=15)
    [-5, 0, 5]
    """
    return sorted(
        {
            start
            for pane in panes
            for start in window.starts_covering(pane)
            if emitted_us < start + window.size_us <= watermark_us
        }
    )


def first_live_pane(window: TimeWindow, emitted_us: int) -> int:
    """Panes below this one belong to no window that ends after `emitted_us`.

    >>> first_live_pane(TimeWindow(10, 5, 0), emitted_us=14)
    5
    """
    last_closed = (emitted_us - window.size_us - window.start_offset_us) // window.slide_us
    return window.start_offset_us + (last_closed + 1) * window.slide_us
