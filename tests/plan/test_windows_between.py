"""pyslash/plan/window.py: what is emitted and what is dead, against brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyslash.plan.window import TimeWindow, first_live_pane, windows_between
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
    assert windows_between(window, _panes(window, times), emitted, watermark) == sorted(expected)


def test_closing_takes_no_longer_where_a_pane_is_part_of_many_windows() -> None:
    """A day, sliding by 100 ms: 864,000 windows hold a pane, and the panes of two hours are part of 6 * 10^10."""
    second = 1_000_000
    day = TimeWindow(86_400 * second, second // 10, 0)
    first, last = 1_000_000 * second, 1_007_200 * second
    panes = range(first, last, day.pane_us)
    emitted = first + 3_600 * second
    expected = list(range(emitted - day.size_us + day.slide_us, emitted - day.size_us + 60 * second, day.slide_us))
    assert windows_between(day, panes, emitted, emitted + 60 * second - 1) == expected


def test_runs_of_windows_with_nothing_between_them_stay_apart() -> None:
    window = TimeWindow(20, 10, 0)
    assert windows_between(window, {500, 0, 40, 70}, -100, 1000) == [-10, 0, 30, 40, 60, 70, 490, 500]


@given(windows(), st.lists(st.integers(-100, 100), max_size=8), st.integers(-60, 60))
def test_dead_panes_are_those_whose_last_window_has_been_emitted(
    window: TimeWindow, times: list[int], emitted: int
) -> None:
    live = first_live_pane(window, emitted)
    for pane in _panes(window, times):
        last_end = window.starts_covering(pane)[-1] + window.size_us
        assert (pane >= live) == (last_end > emitted)
