"""What an epoch of a run sets off besides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyslash.driver.operator_run import OperatorRun


def test_a_run_writes_nothing_beside_epochs_before_it_has_logged_one() -> None:
    """Else a query whose sink fails would leave all of its state once more with each start."""
    run: Any = object.__new__(OperatorRun)
    woken: list[None] = []
    run.state = SimpleNamespace(coordinator=SimpleNamespace(commit=lambda _: None), last=None, swept=False)
    run._snapshots, run._beside = SimpleNamespace(are_due=True), SimpleNamespace(wake=lambda: woken.append(None))
    run.commit(SimpleNamespace())  # of an epoch that is repeated
    assert woken == []
    run.state.swept = True
    run.commit(SimpleNamespace())
    assert woken == [None]
