"""Numbers of runs, whatever the clock does."""

from __future__ import annotations

import pytest

from pyslash.state import run_number
from pyslash.state.run_number import next_run


def test_a_later_run_has_a_higher_number_than_any_that_is_known() -> None:
    runs = [next_run(0)]
    for _ in range(100):
        runs.append(next_run(0))
    assert runs == sorted(set(runs))
    ahead = runs[-1] + (1 << 50)
    assert ahead < next_run(ahead) < 1 << 63


def test_a_clock_that_stands_still_or_goes_back_tells_no_number_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    before = next_run(0)
    monkeypatch.setattr(run_number.time, "time_ns", lambda: 0)
    assert next_run(0) > before
    # Another process, which knows nothing of the first one's numbers.
    alike = set()
    for _ in range(20):
        monkeypatch.setattr(run_number, "_newest", 0)
        alike.add(next_run(7))
    assert len(alike) > 1
    assert min(alike) > 7
