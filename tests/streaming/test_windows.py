"""pyslash/streaming/windows.py: what closes and what is dead, against brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyslash.plan.window import TimeWindow
from pyslash.streaming.windows import closed_windows, first_live_pane
from tests.plan.test_window import windows


def _panes(window: TimeWindow, times: list[int]) -> set[int]:
    return {time - (time - window.start_offset_us) % window.pane_us for time in times}


@given(windows(), st.lists(st.integers(-100, 100)), st.integers(-60, 60), st.integers(0, 60))
def test_closed_windows_end_between_the_watermarks_and_hold_a_row(
    window: TimeWindow, times: list[int], emitted: int, advance: int
) -> None:
    watermark = emitted + advance
    expected = {
        start
        for time in times
        for start in range(time - 50, time + 1)
        if (start - window.start_offset_us) % window.slide_us == 0
        and time < start + window.size_us
        and emitted < start + window.size_us <= watermark
    }
    assert closed_windows(window, _panes(window, times), emitted, watermark) == sorted(expected)


@given(windows(), st.lists(st.integers(-100, 100), max_size=8), st.integers(-60, 60))
def test_dead_panes_are_those_whose_last_window_has_been_emitted(
    window: TimeWindow, times: list[int], emitted: int
) -> None:
    live = first_live_pane(window, emitted)
    for pane in _panes(window, times):
        last_end = window.starts_covering(pane)[-1] + window.size_us
        assert (pane >= live) == (last_end > emitted)
