"""Which windows an epoch closes, and which panes are then dead: plain arithmetic on microseconds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from pyslash.plan.window import TimeWindow


def closed_windows(window: TimeWindow, panes: Iterable[int], emitted_us: int, watermark_us: int) -> list[int]:
    """Starts of the windows to emit, ascending: those that hold a pane and end in (emitted, watermark].

    A window is emitted once, in the first epoch whose end moves the watermark past its own end. The work is that of
    sorting the panes and of listing the result, however many windows a pane is part of.

    >>> closed_windows(TimeWindow(10, 5, 0), panes=[0, 5, 10], emitted_us=0, watermark_us=15)
    [-5, 0, 5]
    """
    first_start = first_live_pane(window, emitted_us)
    end = first_live_pane(window, watermark_us)  # the first start that stays open
    # Ascending panes have ascending starts, so that each joins the last run of starts or begins the next one.
    runs: list[range] = []
    for pane in sorted(panes):
        covering = window.starts_covering(pane)
        first, stop = max(covering.start, first_start), min(covering.stop - 1 + window.slide_us, end)
        if first >= stop:
            continue
        if runs and first <= runs[-1].stop:
            runs[-1] = range(runs[-1].start, stop, window.slide_us)
        else:
            runs.append(range(first, stop, window.slide_us))
    return list(chain.from_iterable(runs))


def first_live_pane(window: TimeWindow, emitted_us: int) -> int:
    """Panes below this one belong to no window that ends after `emitted_us`: it is the start of the first that does.

    >>> first_live_pane(TimeWindow(10, 5, 0), emitted_us=14)
    5
    """
    last_closed = (emitted_us - window.size_us - window.start_offset_us) // window.slide_us
    return window.start_offset_us + (last_closed + 1) * window.slide_us
