"""A figure that is not Spark's is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.streaming.streams.figures import Figures, different

STATE = {
    "operatorName": "dedupe",
    "numRowsTotal": 3,
    "numRowsUpdated": 2,
    "numRowsDroppedByWatermark": 1,
    "customMetrics": {"numDroppedDuplicateRows": 4},
}
TIMES = dict.fromkeys(("min", "avg", "max", "watermark"), "1970-01-01T00:00:01.000Z")
FIGURES = Figures(10, 5, TIMES, {"below0": {"m0": 3, "m1": 0.1}}, [STATE])


def _state(**changed: Any) -> list[dict[str, Any]]:
    return [STATE | changed]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (replace(FIGURES, input_rows=9), "numInputRows: Spark 10, pyslash 9"),
        (replace(FIGURES, output_rows=-1), "sink.numOutputRows: Spark 5, pyslash -1"),
        (replace(FIGURES, times={}), f"eventTime: Spark {TIMES}, pyslash {{}}"),
        (
            replace(FIGURES, times=TIMES | {"watermark": "1970-01-01T00:00:00.000Z"}),
            "eventTime.watermark: Spark 1970-01-01T00:00:01.000Z, pyslash 1970-01-01T00:00:00.000Z",
        ),
        (
            replace(FIGURES, observed={"below0": {"m0": 0, "m1": None}}),
            "observedMetrics: Spark {'below0': {'m0': 3, 'm1': 0.1}}, pyslash {'below0': {'m0': 0, 'm1': None}}",
        ),
        (replace(FIGURES, states=[]), "stateOperators: Spark ['dedupe'], pyslash []"),
        (
            replace(FIGURES, states=_state(numRowsUpdated=0)),
            "stateOperators[0], dedupe: numRowsUpdated: Spark 2, pyslash 0",
        ),
        (
            replace(FIGURES, states=_state(customMetrics={"numDroppedDuplicateRows": 0})),
            "stateOperators[0], dedupe: numDroppedDuplicateRows: Spark 4, pyslash 0",
        ),
    ],
)
def test_a_difference_is_told(changed: Figures, told: str) -> None:
    assert list(different(FIGURES, changed, reads_files=False, is_replayed=False)) == [told]


def test_what_is_documented_is_no_difference() -> None:
    """A mean of microseconds; a count of rows where Spark counts groups; rows that Spark's reader has skipped."""
    nearly = replace(FIGURES, times=TIMES | {"avg": "1970-01-01T00:00:01.001Z"}, input_rows=12)
    assert list(different(FIGURES, nearly, reads_files=True, is_replayed=False)) == []
    spark, slash = (
        replace(FIGURES, states=_state(operatorName="stateStoreSave", numRowsDroppedByWatermark=late, numRowsUpdated=n))
        for late, n in ((1, 2), (5, 3))
    )
    assert list(different(spark, slash, reads_files=False, is_replayed=False)) == []


def test_a_replayed_batch_reads_nothing() -> None:
    above = {"above0": {"m0": 7}}
    first = replace(FIGURES, observed=FIGURES.observed | above)
    again = replace(FIGURES, input_rows=0, observed={"below0": {"m0": 0, "m1": None}} | above)
    assert list(different(first, again, reads_files=False, is_replayed=True)) == []
    assert len(list(different(first, again, reads_files=False, is_replayed=False))) == 2
    updated, none = (_state(operatorName="symmetricHashJoin", numRowsUpdated=rows) for rows in (2, 0))
    joined = replace(first, states=updated), replace(again, states=none)
    assert list(different(*joined, reads_files=False, is_replayed=True)) == []
    uncounted = _state(numRowsUpdated=0, customMetrics={})
    below = replace(first, states=_state() * 2), replace(again, states=_state() + uncounted)
    assert list(different(*below, reads_files=False, is_replayed=True)) == []
    assert len(list(different(*below, reads_files=False, is_replayed=False))) > 1
    wrong = replace(again, observed=again.observed | {"above0": {"m0": 0}})
    assert len(list(different(first, wrong, reads_files=False, is_replayed=True))) == 1
