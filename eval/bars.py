"""What pyslash is held to, judged by the records of one session: reached, not reached, or not measured.

Every ratio is of medians of that session. `python -m eval.bars RESULTS` judges a results file again.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval import suites
from eval.records import batch_ms
from eval.session import read
from eval.workloads.nexmark import QUERIES, SELECTS

Record = dict[str, Any]
NO_BAR = "(no bar)"
# Least ratios of pyslash to a store of Spark's.
RATIOS = {
    suites.TUMBLING: (suites.BASELINE, 8.0),
    suites.LARGE: (suites.BASELINE, 14.0),
    suites.SLIDING: (suites.BASELINE, 60.0),
    suites.MANY_KEYS: (suites.DEFAULT, 12.0),
    suites.SESSIONS: (suites.BASELINE, 8.0),
    suites.JOIN_WITHIN: (suites.BASELINE, 8.0),
    suites.YSB: (suites.BASELINE, None),
}
STRINGS_OF_INTEGERS = 0.6  # least rate with string keys, over that with integer keys
MOST_OF_STATELESS = 0.7  # that a small micro-batch may take, over one of plain Spark without any aggregation
# Of NEXMark's geometric means over RocksDB, Flink's heap and Flink's RocksDB; by the size of micro-batches.
NEXMARK = {suites.nexmark_title: (3.0, 1.0, 2.0), suites.nexmark_large_title: (5.0, 1.5, 3.0)}
# Most cycles a record on one core, by the name of the native benchmark.
CYCLES = {"update_columns/ysb_count/10000": 53.0, "update_columns/sum_count_max/100000": 80.0}


@dataclass(frozen=True)
class Bar:
    """A figure and what it has to be; `met` is None where it could not be measured."""

    what: str
    figure: str
    wanted: str
    met: bool | None

    def __str__(self) -> str:
        verdict = {True: "met", False: "NOT MET", None: "not measured"}[self.met]
        if self.wanted.startswith("("):
            verdict = ""
        return f"  {self.what:60} {self.figure:>16}   wanted {self.wanted:28} {verdict}".rstrip()


class Measured:
    """The runs of a session, by title and engine."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._runs: dict[tuple[str, str], list[Record]] = {}
        for record in records:
            if "engine" in record:
                self._runs.setdefault((record["title"], record["engine"]), []).append(record)

    def runs(self, title: str, engine: str) -> list[Record]:
        """The runs that have figures; none if one of them failed, as those of the others would hide it."""
        runs = self._runs.get((title, engine), [])
        return [] if any(run.get("error") for run in runs) else [run for run in runs if "rows_per_second" in run]

    def rate(self, title: str, engine: str) -> float | None:
        """Median rows a second."""
        rates = [run["rows_per_second"] for run in self.runs(title, engine)]
        return statistics.median(rates) if rates else None

    def most(self, title: str, engine: str, figure: str) -> float | None:
        """The highest value of a figure."""
        return max((run[figure] for run in self.runs(title, engine) if run.get(figure)), default=None)

    def checked(self) -> dict[str, list[str]]:
        """By title: engines whose rows were compared; those whose rows were wrong have a `!` before the name."""
        found: dict[str, list[str]] = {}
        for (title, engine), runs in self._runs.items():
            verdicts = [run["correct"] for run in runs if run.get("correct") is not None]
            if verdicts:
                found.setdefault(title, []).append(engine if all(verdicts) else f"!{engine}")
        return found


def verdicts(records: Iterable[Record], kernels: Path | None = None) -> list[Bar]:
    """Every bar; `kernels` is google-benchmark's JSON of the native benchmarks."""
    measured = Measured(records)
    return [
        *_correct(measured),
        *_cycles(kernels),
        *_throughput(measured),
        *_small(measured),
        *_modes(measured),
        *_memory(measured),
        *_skew(measured),
        *_repartition(measured),
        *_costs_nothing(measured),
        *(bar for title, least in NEXMARK.items() for bar in _nexmark(measured, title, least)),
    ]


def _correct(measured: Measured) -> list[Bar]:
    checked = measured.checked()
    wrong = [f"{title}: {engine[1:]}" for title, engines in checked.items() for engine in engines if engine[0] == "!"]
    count = sum(map(len, checked.values()))
    figure = ", ".join(wrong) or f"{count} engines" if count else "-"
    return [Bar("rows equal Spark's, in every comparison", figure, "all", not wrong if count else None)]


def _cycles(kernels: Path | None) -> list[Bar]:
    found = {}
    if kernels is not None and kernels.exists():
        benchmarks = json.loads(kernels.read_text())["benchmarks"]
        found = {each["name"]: each["cycles/record"] for each in benchmarks if "cycles/record" in each}
    return [_at_most(f"cycles a record, {name}", found.get(name), most, "") for name, most in CYCLES.items()]


def _throughput(measured: Measured) -> list[Bar]:
    integers, strings = (measured.rate(title, "slash") for title in (suites.TUMBLING, suites.STRINGS))
    return [
        *(
            _ratio(f"{title}: slash / {store}", measured.rate(title, "slash"), measured.rate(title, store), least)
            for title, (store, least) in RATIOS.items()
        ),
        _ratio("slash with string keys / with integer keys", strings, integers, STRINGS_OF_INTEGERS),
    ]


def _small(measured: Measured) -> list[Bar]:
    bars = []
    for title in (suites.CLOSING, suites.UPDATE_SMALL):
        engines = ("slash", suites.BASELINE, "stateless")
        ours, base, floor = (batch_ms(measured.runs(title, engine)) for engine in engines)
        bars.append(_at_most(f"{title}: slash, under {suites.BASELINE}", ours or None, base or None, " ms"))
        ratio = ours / floor if ours and floor else None
        bars.append(_at_most(f"{title}: slash / no aggregation", ratio, MOST_OF_STATELESS, "x"))
    return bars


def _modes(measured: Measured) -> list[Bar]:
    base = suites.BASELINE
    least = {suites.UPDATE: 3.0, suites.UPDATE_KEYS: 3.0, suites.COMPLETE: 2.0}
    least |= {suites.UNIQUE: 5.0, suites.UNIQUE_TIMED: 5.0}
    bars = [
        _ratio(f"{title}: slash / {base}", measured.rate(title, "slash"), measured.rate(title, base), ratio)
        for title, ratio in least.items()
    ]
    for title in (*least, suites.UPDATE_SMALL):
        sizes = (measured.most(title, engine, "peak_bytes") for engine in ("slash", base))
        ours_gb, theirs_gb = (size / 1e9 if size else None for size in sizes)
        bars.append(_at_most(f"{title}: peak memory of slash, under {base}", ours_gb, theirs_gb, " GB"))
    return bars


def _memory(measured: Measured) -> list[Bar]:
    few, all_rows = (measured.most(title, "slash", "pinned_bytes") for title in suites.PINNED)
    ratio = all_rows / few if few and all_rows else None
    ours, theirs = (measured.most(suites.MANY_KEYS, engine, "peak_bytes") for engine in ("slash", "spark-hdfs"))
    return [
        _at_most("pinned bytes at 10 times the rows, same groups", ratio, 1.2, "x"),
        _at_most(
            f"peak memory, {suites.MANY_KEYS}: slash, under spark-hdfs",
            ours / 1e9 if ours else None,
            theirs / 1e9 if theirs else None,
            " GB",
        ),
    ]


def _skew(measured: Measured) -> list[Bar]:
    even, skewed = (measured.rate(title, "slash") for title in (suites.EVEN, suites.SKEWED))
    return [_ratio("slash at Zipf 1.5 / at even keys", skewed, even, 0.95)]


def _repartition(measured: Measured) -> list[Bar]:
    ours, theirs = (measured.rate(suites.YSB_TWO, engine) for engine in ("slash-2x", "slash-repartition-2x"))
    return [_ratio(f"{suites.YSB_TWO}, end to end: slash / slash-repartition", ours, theirs, None)]


def _costs_nothing(measured: Measured) -> list[Bar]:
    ours, theirs = (measured.rate(suites.READ_ONLY, engine) for engine in ("slash", suites.BASELINE))
    return [_ratio("no state: with pyslash / without", ours, theirs, 1.0)]


def _nexmark(measured: Measured, title: Callable[[int], str], least: tuple[float, float, float]) -> list[Bar]:
    """Over all queries of a kind, or not at all: a mean without the hardest ones would say nothing."""
    stateful, plain = (
        [title(q) for q, described in QUERIES.items() if described.has_state is state] for state in (True, False)
    )
    selected = [title(q) for q in SELECTS]
    base = suites.BASELINE
    means = zip((base, "flink", "flink-rocksdb"), (stateful, selected, selected), least, strict=True)
    what = title(0).replace(" q0", "")
    return [
        *(
            _least(f"{what}, geometric mean of {len(titles)} queries with state: slash / {other}", mean, bar)
            for other, titles, bar in means
            for mean in [_geometric_mean(_ratios(measured, titles, other))]
        ),
        _least(f"{what}, the least query with state: slash / {base}", _lowest(measured, stateful), 1.2),
        _least(f"{what}, the least query without state: slash / {base}", _lowest(measured, plain), 1.0),
    ]


def _ratios(measured: Measured, titles: list[str], other: str) -> list[float] | None:
    rates = [(measured.rate(title, "slash"), measured.rate(title, other)) for title in titles]
    ratios = [ours / theirs for ours, theirs in rates if ours and theirs]
    return ratios if len(ratios) == len(titles) else None


def _lowest(measured: Measured, titles: list[str]) -> float | None:
    return min(_ratios(measured, titles, suites.BASELINE) or [], default=None)


def _geometric_mean(ratios: list[float] | None) -> float | None:
    return statistics.geometric_mean(ratios) if ratios else None


def _ratio(what: str, ours: float | None, theirs: float | None, least: float | None) -> Bar:
    return _least(what, ours / theirs if ours and theirs else None, least)


def _least(what: str, ratio: float | None, least: float | None) -> Bar:
    figure = f"{ratio:.2f}x" if ratio else "-"
    met = None if ratio is None else least is None or ratio >= least
    return Bar(what, figure, NO_BAR if least is None else f">= {least:g}x", met)


def _at_most(what: str, ours: float | None, most: float | None, unit: str) -> Bar:
    figure = f"{ours:.3g}{unit}" if ours else "-"
    wanted = f"<= {most:.3g}{unit}" if most else "not measured either"
    return Bar(what, figure, wanted, ours <= most if ours and most else None)


def main() -> int:
    """Judge a results file; 1 if a bar is not reached."""
    found = verdicts(read(Path(sys.argv[1])), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    print(*found, sep="\n")
    return int(any(bar.met is False for bar in found))


if __name__ == "__main__":
    sys.exit(main())
