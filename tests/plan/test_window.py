"""pyslash/plan/window.py: window arithmetic against a brute-force model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyslash.plan.window import TimeWindow


@st.composite
def windows(draw: st.DrawFn) -> TimeWindow:
    slide = draw(st.integers(1, 12))
    size = draw(st.integers(slide, 40))
    return TimeWindow(size, slide, draw(st.integers(-15, 15)))


@given(windows(), st.integers(-200, 200))
def test_the_windows_of_a_pane_are_those_that_hold_each_of_its_times(window: TimeWindow, time: int) -> None:
    pane = time - (time - window.start_offset_us) % window.pane_us
    holding = [
        start
        for start in range(time - 100, time + 100)
        if (start - window.start_offset_us) % window.slide_us == 0 and start <= time < start + window.size_us
    ]
    assert list(window.starts_covering(pane)) == holding
