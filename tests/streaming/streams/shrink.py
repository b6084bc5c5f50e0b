"""Makes a failing `Case` small: drops what it still fails without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.streaming.streams.case import FOLDERS, Case, File, Run
from tests.streaming.streams.vocabulary import FILTERS_OF_FOLDERS

PLAIN = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
}


def shrink(case: Case, fails: Callable[[Case], bool], tries: int) -> Case:
    """The smallest case that was found to fail within so many tries."""
    improved = True
    while improved and tries > 0:
        improved = False
        for smaller in simpler(case):
            if tries <= 0:
                break
            tries -= 1
            if fails(smaller):
                case, improved = smaller, True
                break
    return case


def simpler(case: Case) -> Iterator[Case]:
    """Cases that have something less; those that lose most come first."""
    if len(case.sources) > (2 if case.join else 1):
        yield from (replace(case, sources=case.sources[:i] + case.sources[i + 1 :]) for i in range(len(case.sources)))
    if case.crash is not None:
        yield replace(case, crash=None)
    if case.cell.source != "parquet":
        yield replace(case, cell=replace(case.cell, source="parquet"))
    if case.sink != "foreachBatch":
        yield replace(case, sink="foreachBatch")
    if case.upper:
        yield replace(case, upper=())
    if case.spelling != "plain":
        yield replace(case, spelling="plain")
    if case.parts:
        before = tuple(step for step in case.before if step[-1] not in FILTERS_OF_FOLDERS)
        yield replace(case, parts=False, before=before, keys=tuple(key for key in case.keys if key not in FOLDERS))
    if any(run.conf for run in case.runs):
        yield replace(case, runs=tuple(replace(run, conf=()) for run in case.runs))
    if case.grouping in ("rollup", "cube"):
        yield replace(case, grouping="groupBy")
    if case.cell.source != "rate" and (len(case.runs) > 1 or case.runs[0].how != "available"):
        yield replace(case, runs=(Run("available", case.batches),))
    yield from _without_batches(case)
    yield from _without_rows(case)
    for name in ("before", "after", "above", "keys", "aggregates"):
        parts: tuple[Any, ...] = getattr(case, name)
        for i in range(len(parts)):
            fewer: dict[str, Any] = {name: parts[:i] + parts[i + 1 :]}
            yield replace(case, **fewer).without_unread_columns()
    for name, value in case.conf:
        if name in PLAIN and PLAIN[name] != value:
            yield replace(case, conf=tuple((n, PLAIN[n] if n == name else v) for n, v in case.conf))
        elif name not in PLAIN:
            yield replace(case, conf=tuple(pair for pair in case.conf if pair[0] != name))


def _without_batches(case: Case) -> Iterator[Case]:
    for number, source in enumerate(case.sources):
        for i in range(len(source.batches)):
            batches = source.batches[:i] + source.batches[i + 1 :]
            sources = (*case.sources[:number], replace(source, batches=batches), *case.sources[number + 1 :])
            count = max(len(other.batches) for other in sources)
            if count:
                yield replace(case, sources=sources, runs=_fitted(case.runs, count))


def _fitted(runs: tuple[Run, ...], count: int) -> tuple[Run, ...]:
    """The same runs over fewer batches: the last ones lose theirs."""
    fitted = []
    for run in runs:
        size = min(run.batches, count)
        if size:
            fitted.append(replace(run, batches=size))
        count -= size
    return tuple(fitted)


def _without_rows(case: Case) -> Iterator[Case]:
    """Without half of a file's rows, then without one of them."""
    for number, source in enumerate(case.sources):
        for b, batch in enumerate(source.batches):
            for f, rows in enumerate(batch):
                for fewer in _fewer(rows):
                    files = (*batch[:f], fewer, *batch[f + 1 :])
                    batches = (*source.batches[:b], files, *source.batches[b + 1 :])
                    changed = replace(source, batches=batches)
                    yield replace(case, sources=(*case.sources[:number], changed, *case.sources[number + 1 :]))


def _fewer(rows: File) -> Iterator[File]:
    half = len(rows) // 2
    if half > 1:
        yield rows[:half]
        yield rows[half:]
    yield from (rows[:i] + rows[i + 1 :] for i in range(len(rows)))
