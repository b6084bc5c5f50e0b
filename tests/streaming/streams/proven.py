"""Keeps what streams have shown, and makes the page of it: which cells of the matrix were seen equal to Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyspark

from tests.streaming.streams.case import Case
from tests.streaming.streams.cells import BETWEEN, FILES, OPERATORS, OTHERS, Cell, cells


@dataclass(frozen=True)
class Seen:
    """One stream that ran on both engines. `rows`: what both gave; None in results that did not count them."""

    spark: str
    seed: int
    cell: Cell
    equal: bool
    rows: int | None = None


def keep(path: Path, case: Case, equal: bool, rows: int | None = None) -> None:
    """Add a line to the results; a line is written at once, so that several processes may."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(Seen(pyspark.__version__, case.seed, case.cell, equal, rows)))
    with path.open("a") as results:
        results.write(line + "\n")


def read(paths: Iterable[Path]) -> list[Seen]:
    """What runs have kept; of a seed that ran several times, the last run counts."""
    found = {}
    for path in paths:
        for line in path.read_text().splitlines():
            values = json.loads(line)
            seen = Seen(**{**values, "cell": Cell(**values["cell"])})
            found[seen.spark, seen.seed, seen.cell] = seen
    return [*found.values()]


def page(seen: list[Seen]) -> str:
    """As Markdown."""
    return "\n".join(_lines(seen)) + "\n"


def _lines(seen: list[Seen]) -> Iterator[str]:
    equal = Counter(one.cell for one in seen if one.equal)
    differing = Counter(one.cell for one in seen if not one.equal)
    versions = ", ".join(sorted({one.spark for one in seen})) or "none"
    every = cells((*FILES, *OTHERS))
    proven = [cell for cell in every if equal[cell] and not differing[cell]]
    yield "# What is proven"
    yield ""
    yield "Random streams run on plain Spark and on pyslash. All that both give is compared batch by batch: rows,"
    yield "watermarks and event times, observed metrics, figures of the state, rows that the sink counts, and batches"
    yield "without data. Each stream is drawn for one combination of a source, what stands between it and its operator,"
    yield "and the operator in its output mode."
    yield "`python -m tests.streaming.streams --page` makes this page from the results of such runs."
    yield ""
    seeds = f"{len(seen)} streams on PySpark {versions}"
    yield f"{seeds}: {sum(equal.values())} were equal, {sum(differing.values())} differed."
    yield f"{len(proven)} of {len(every)} combinations were seen equal, and never otherwise."
    yield from _with_rows(seen, proven)
    yield ""
    yield "## Operators"
    yield ""
    yield f"How many of the {len(BETWEEN)} combinations below were seen equal, and never otherwise."
    yield ""
    yield from _table(equal, differing)
    yield ""
    yield "Between a source and the operator stands, in a stream, one of these:"
    yield ""
    yield from (f"- {name}" for name in BETWEEN)
    yield ""
    yield "## What was not seen equal"
    yield ""
    missing = [cell for cell in every if not equal[cell] or differing[cell]]
    yield from _missing(missing, differing)


def _with_rows(seen: list[Seen], proven: list[Cell]) -> Iterator[str]:
    """That nothing equals nothing shows little. Results that did not count rows say nothing of it."""
    unknown = sum(one.rows is None for one in seen)
    if unknown == len(seen):
        return
    given = {one.cell for one in seen if one.equal and one.rows}
    yield f"{sum(cell in given for cell in proven)} of these were seen equal in a stream that gave rows."
    if unknown:
        yield f"Results of {unknown} of the streams, which are older, do not say whether these gave any."


def _table(equal: Counter[Cell], differing: Counter[Cell]) -> Iterator[str]:
    sources = (*FILES, *OTHERS)
    yield "| operator, output mode | " + " | ".join(sources) + " |"
    yield "| --- |" + " ---: |" * len(sources)
    for operator, mode in OPERATORS:
        counts = []
        for source in sources:
            of_pair = [Cell(source, between, operator, mode) for between in BETWEEN]
            counts.append(sum(1 for cell in of_pair if equal[cell] and not differing[cell]))
        yield f"| {operator}, {mode} | " + " | ".join(str(count) if count else "not seen" for count in counts) + " |"


def _missing(missing: list[Cell], differing: Counter[Cell]) -> Iterator[str]:
    """Whole sources are named once."""
    if not missing:
        yield "Nothing: every combination was seen equal."
        return
    by_source: dict[str, list[Cell]] = {}
    for cell in missing:
        by_source.setdefault(cell.source, []).append(cell)
    yield "| source | operator, output mode | between |"
    yield "| --- | --- | --- |"
    for source, found in by_source.items():
        if len(found) == len(BETWEEN) * len(OPERATORS) and not any(differing[cell] for cell in found):
            yield f"| {source} | all | all: not seen |"
            continue
        for operator, mode in OPERATORS:
            of_pair = [cell for cell in found if (cell.operator, cell.mode) == (operator, mode)]
            if of_pair:
                yield f"| {source} | {operator}, {mode} | {_betweens(of_pair, differing)} |"


def _betweens(of_pair: list[Cell], differing: Counter[Cell]) -> str:
    """What was not seen equal of one source and one operator."""
    differs = [cell.between for cell in of_pair if differing[cell]]
    if len(of_pair) == len(BETWEEN) and not differs:
        return "all: not seen"
    names = [f"{cell.between} ({'differs' if differing[cell] else 'not seen'})" for cell in of_pair]
    return "; ".join(names)
