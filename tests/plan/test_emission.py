"""Which windows an epoch's groups are too late for, against each of their windows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyslash.operators.join import JoinEmission
from pyslash.operators.session.plan import SessionEmission
from pyslash.plan.emission import Emission
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.window import NO_WATERMARK_US, TimeWindow


@given(st.integers(1, 12), st.integers(0, 30), st.integers(-60, 60), st.integers(-60, 60))
def test_groups_are_late_for_the_windows_that_have_ended(slide: int, more: int, time: int, watermark: int) -> None:
    window = TimeWindow(slide + more, slide, 0)
    pane = time - time % window.pane_us
    ended = [
        start
        for start in range(time - 100, time + 100)
        if start % slide == 0 and start <= time < start + window.size_us <= watermark
    ]
    emission = Emission(OutputMode.UPDATE, window, has_keys=True)
    assert emission.late_windows(pane, watermark) == len(ended)
    assert emission.late_windows(pane, NO_WATERMARK_US) == 0
    assert (emission.final_by(pane) <= watermark) == bool(ended)


def test_what_has_no_windows_is_late_for_none() -> None:
    window = TimeWindow(10, 5, 0)
    for kind in (JoinEmission, SessionEmission):
        assert kind(OutputMode.APPEND, window, has_keys=True).late_windows(0, 1000) == 0
    assert Emission(OutputMode.APPEND, window, has_keys=True, new_only=True).late_windows(0, 1000) == 0
    assert Emission(OutputMode.UPDATE, TimeWindow.all_time(), has_keys=True).late_windows(0, 1000) == 0


def test_what_an_emitted_session_may_touch_is_final_at_its_start() -> None:
    assert SessionEmission(OutputMode.APPEND, TimeWindow(1, 1, 0), has_keys=True).final_by(1000) == 1000


def test_a_key_is_final_once_its_pane_is_dropped() -> None:
    minute = TimeWindow(60, 60, 0)
    emission = Emission(OutputMode.APPEND, minute, has_keys=True, new_only=True)
    assert emission.final_by(120) == 180
    assert [emission.first_live_pane(watermark, 0) > 120 for watermark in (179, 180)] == [False, True]
