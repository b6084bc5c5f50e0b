"""What Spark's progress says of a micro-batch, as far as pyslash promises the same, and whether it does."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import StreamingQuery

_MILLIS = 2  # a mean of microseconds, and one of milliseconds, as text of milliseconds
_DROPPED = "numRowsDroppedByWatermark"


@dataclass(frozen=True)
class Figures:
    """Of one micro-batch."""

    input_rows: int
    output_rows: int
    times: dict[str, str]
    observed: dict[str, Any]
    states: list[dict[str, Any]]

    @classmethod
    def of(cls, query: StreamingQuery) -> dict[int, Figures]:
        """Of all micro-batches of a run that have ended, by their ids."""
        found = {}
        for progress in query.recentProgress:
            one = json.loads(progress.json)
            if "addBatch" in one["durationMs"]:
                found[int(one["batchId"])] = cls(
                    input_rows=sum(int(source["numInputRows"]) for source in one["sources"]),
                    output_rows=int(one["sink"]["numOutputRows"]),
                    times=dict(one.get("eventTime", {})),
                    observed=dict(one.get("observedMetrics", {})),
                    states=list(one["stateOperators"]),
                )
        return found

    @property
    def dropped(self) -> int:
        """Rows, or groups, that came too late for an operator."""
        return sum(int(state[_DROPPED]) for state in self.states)


def different(
    spark: Figures, slash: Figures, reads_files: bool, is_replayed: bool, filters_windows: bool = False
) -> Iterator[str]:
    """Lines for a reader.

    Args:
        spark: what is expected.
        slash: what was found.
        reads_files: native code may have read files of which Spark has read less.
        is_replayed: the micro-batch came again, when pyslash had its rows.
        filters_windows: a filter above reads windows alone. Spark has it below the operator.
    """
    if is_replayed and slash.input_rows == 0:
        below = {name: None for name in spark.observed if name.startswith("below")}
        spark, slash = (replace(one, input_rows=0, observed=one.observed | below) for one in (spark, slash))
    if slash.input_rows != spark.input_rows and not (reads_files and slash.input_rows > spark.input_rows):
        yield f"numInputRows: Spark {spark.input_rows}, pyslash {slash.input_rows}"
    if slash.output_rows != spark.output_rows:
        yield f"sink.numOutputRows: Spark {spark.output_rows}, pyslash {slash.output_rows}"
    if set(spark.times) != set(slash.times):
        yield f"eventTime: Spark {spark.times}, pyslash {slash.times}"
    else:
        for name, time in spark.times.items():
            other = slash.times[name]
            if time != other and not (name == "avg" and abs(_millis(time) - _millis(other)) <= _MILLIS):
                yield f"eventTime.{name}: Spark {time}, pyslash {other}"
    if not _same(spark.observed, slash.observed):
        yield f"observedMetrics: Spark {spark.observed}, pyslash {slash.observed}"
    names = [state["operatorName"] for state in spark.states], [state["operatorName"] for state in slash.states]
    if names[0] != names[1]:
        yield f"stateOperators: Spark {names[0]}, pyslash {names[1]}"
        return
    for number, (expected, found) in enumerate(zip(spark.states, slash.states, strict=True)):
        if is_replayed and number > 0 and _has_counted_nothing(found):
            continue  # what is above it has its rows of the first attempt
        for line in _of_state(expected, found, is_replayed, filters_windows):
            yield f"stateOperators[{number}], {names[0][number]}: {line}"


def _has_counted_nothing(state: dict[str, Any]) -> bool:
    return not state["numRowsUpdated"] and not state["customMetrics"].get("numDroppedDuplicateRows")


def _of_state(spark: dict[str, Any], slash: dict[str, Any], is_replayed: bool, filters_windows: bool) -> Iterator[str]:
    """What docs/differences.md says of a figure decides whether it is equal, or at least how Spark's is."""
    operator = spark["operatorName"]
    exact = [_DROPPED] if operator in ("dedupe", "dedupeWithinWatermark", "symmetricHashJoin") else []
    if operator == "dedupe":
        exact.append("numRowsUpdated")
    for name in exact:
        if spark[name] != slash[name]:
            yield f"{name}: Spark {spark[name]}, pyslash {slash[name]}"
    for name in sorted({_DROPPED, "numRowsUpdated"} - {*exact}):
        if is_replayed and name == "numRowsUpdated" and slash[name] == 0:
            continue  # the first attempt has written them
        if filters_windows and spark[name] == 0:
            continue
        if operator == "symmetricHashJoin" and name == "numRowsUpdated" and spark[name] == 0:
            continue  # Spark keeps no row of a semi join that has found its match; pyslash finds it later
        if bool(spark[name]) != bool(slash[name]):
            yield f"{name}: Spark {spark[name]}, pyslash {slash[name]}"
    name = "numDroppedDuplicateRows"
    if spark["customMetrics"].get(name) != slash["customMetrics"].get(name):
        yield f"{name}: Spark {spark['customMetrics'].get(name)}, pyslash {slash['customMetrics'].get(name)}"


def _millis(time: str) -> float:
    return datetime.fromisoformat(time).timestamp() * 1000


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9)
    return bool(a == b)
