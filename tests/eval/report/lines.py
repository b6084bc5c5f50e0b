"""Lines of results files, as the tests of reports need them."""

from __future__ import annotations

from typing import Any

WORKLOAD = {
    "name": "aggregate",
    "rows": 1_000_000,
    "batches": 4,
    "span_s": 10.0,
    "keys": 100,
    "slide_s": 10,
    "skew": 0.0,
}
MACHINE = {"cpu": "A Processor @ 2.50GHz", "cores": 2, "memory_gib": 16, "kernel": "6.1", "pyspark": "4.3.0"}


def run(engine: str, rate: float, **fields: Any) -> dict[str, Any]:
    """A run of `engine`; `workload` among the fields is what differs from `WORKLOAD`."""
    workload = {**WORKLOAD, **fields.pop("workload", {})}
    line = {"session": "s", "title": "tumbling", "engine": engine, "rows_per_second": rate, "batch_ms": [10, 30, 20]}
    return {**line, "workload": workload, "correct": True, "machine": MACHINE, **fields}


def failed(engine: str, error: str, **fields: Any) -> dict[str, Any]:
    """What is left of a run of `engine` that failed; beside `run`, one of the same comparison."""
    line = run(engine, 0, error=error, **fields)
    del line["rows_per_second"], line["batch_ms"]
    return line
