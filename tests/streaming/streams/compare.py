"""Whether two runs of a stream gave the same, batch by batch: rows as multisets, floating numbers to 1e-9; figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tests.streaming.streams.case import Case
from tests.streaming.streams.figures import different
from tests.streaming.streams.job_function import SinkFailedError
from tests.streaming.streams.run import Outcome

SINK = SinkFailedError.__name__
OVERFLOW = "ARITHMETIC_OVERFLOW"
NO_STORE = "CANNOT_LOAD_STATE_STORE"
DRAWN = {SINK, OVERFLOW, NO_STORE}
"""Errors that streams are drawn to end with. Any other is a fault of the drawing, which would hide all others."""
Tuple = tuple[Any, ...]


def differences(case: Case, spark: Outcome, slash: Outcome) -> Iterator[str]:
    """Lines for a reader; none where all is equal."""
    # A function that fails is called once an attempt, so the ids are compared as they came.
    ids = [batch for batch, *_ in spark.batches], [batch for batch, *_ in slash.batches]
    # A sum of many batches overflows in Spark when the row comes, in pyslash when the window is merged: the job's
    # function, which may fail, is called by then, and a window that never closes has no sum.
    called = [error for error in slash.errors if error != SINK]
    never = (
        spark.errors[-1:] == [OVERFLOW]
        and called == spark.errors[:-1]
        and not any(rows for _, _, rows in slash.batches[len(ids[0]) :])
    )
    fails_alike = bool(spark.errors) and spark.errors in (slash.errors, called)
    # Spark's optimizer may drop an operator from a micro-batch without rows that is repeated. Its store is then not
    # committed, and the next micro-batch of plain Spark misses it: there is nothing to compare from there on.
    is_lost = spark.errors[-1:] == [NO_STORE] and slash.errors == spark.errors[:-1]
    later = (fails_alike or never or is_lost) and ids[1][: len(ids[0])] == ids[0]
    if not {*spark.errors} <= DRAWN:
        yield f"nothing is compared, for Spark ends with {spark.errors}"
    if spark.errors != slash.errors and not later:
        yield f"Spark ends with {spark.errors or 'success'}, pyslash with {slash.errors or 'success'}"
    if ids[0] != ids[1] and not later:
        yield f"Spark ran batches {ids[0]}, pyslash {ids[1]}"
    for (batch, schema, expected), (other, found_schema, found) in zip(spark.batches, slash.batches, strict=False):
        if batch != other:
            break
        if schema != found_schema:
            yield f"batch {batch}: Spark's schema is {schema}, pyslash's {found_schema}"
        unmatched = [*_unmatched(expected, found)]
        for row, side in unmatched:
            yield f"batch {batch}: only {side}: {row}"
        if _is_sorted(case) and not unmatched and not all(map(same, expected, found)):
            yield f"batch {batch}: rows in the sequence {found}"
    yield from _figures(case, spark, slash, is_whole=not later)


def _is_sorted(case: Case) -> bool:
    kinds = [kind for kind, *_ in case.above if kind != "observe"]
    return kinds[-1:] in (["top"], ["sort"]) and case.sink == "foreachBatch"


def _figures(case: Case, spark: Outcome, slash: Outcome, is_whole: bool) -> Iterator[str]:
    """`is_whole`: both went through the same batches."""
    reads_files = dict(case.conf).get("spark.slash.ingest") == "files"
    joins_static = any(step[:2] in (("join", "inner"), ("merge", "inner")) for step in case.before + case.after)
    filters_windows = any(step[0] == "where" and "window." in step[1] for step in case.above)
    if is_whole and spark.figures.keys() != slash.figures.keys():
        yield f"Spark's progress has batches {[*spark.figures]}, pyslash's {[*slash.figures]}"
    for batch, figures in spark.figures.items():
        if batch in slash.figures:
            may_skip = reads_files or (joins_static and figures.input_rows == 0)
            lines = different(figures, slash.figures[batch], may_skip, batch == case.crash, filters_windows)
            yield from (f"batch {batch}: {line}" for line in lines)
    for batch, parts in spark.parts.items():
        found = slash.parts.get(batch, parts)
        if case.sink != "files":  # of partitions, how many more than one is up to who merges
            parts, found = min(parts, 1), min(found, 1)
        if parts != found:
            what = "files" if case.sink == "files" else "partitions"
            yield f"batch {batch}: {what} of no rows: Spark {parts}, pyslash {found}"


def _unmatched(expected: list[Tuple], found: list[Tuple]) -> Iterator[tuple[Tuple, str]]:
    left, right = sorted(expected, key=_order), sorted(found, key=_order)
    rest = []
    for row in left:
        match = next((i for i, other in enumerate(right) if same(row, other)), None)
        if match is None:
            rest.append(row)
        else:
            del right[match]
    yield from ((row, "Spark") for row in rest)
    yield from ((row, "pyslash") for row in right)


def same(a: Any, b: Any) -> bool:
    """Equal in type and value; floating numbers nearly."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9)
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return a.as_tuple() == b.as_tuple()
    return type(a) is type(b) and bool(a == b)


def _order(row: Tuple) -> str:
    return repr(row)
