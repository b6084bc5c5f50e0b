"""What an epoch of a run sets off besides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyslash.driver.operator_run import OperatorRun
from pyslash.state.version import Size


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


def test_spark_is_told_of_the_operators_own_bytes() -> None:
    """An arena is that of all operators of all queries of the application."""
    run: Any = object.__new__(OperatorRun)
    version = SimpleNamespace(size=Size(3, 300), size_within=lambda *_: Size(1, 100), of_epoch=lambda _: [])
    run.state = SimpleNamespace(coordinator=SimpleNamespace(version=version))
    run.plan = SimpleNamespace(emission=SimpleNamespace(first_live_pane=lambda us, pane: us))
    run._operator = SimpleNamespace(counts=lambda *_: {})
    manifest: Any = SimpleNamespace(epoch=0, pane=0, emitted_us=0, watermark_us=0, late_rows=0)
    assert run.state_rows(manifest, 0, None)["stateMemory"] == 200
