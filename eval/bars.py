"""What pyslash is held to: throughput, latency and memory against Spark in the same session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from eval.report import BASELINE, batch_ms
from eval.session import Outcome, Session
from eval.workloads import Aggregate, Ysb

THROUGHPUT_ENGINES = ("slash", "slash-rows", "slash-arrow", "spark-rocksdb")
LATENCY_ENGINES = ("slash", "spark-rocksdb", "noop")
STRATEGIES = ("slash", "slash-uppar")
TWO_EXECUTORS = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[1]),
}
LATENCY_ROWS = 1_000
LATENCY_BATCHES = 100
WINDOW_S = 10


@dataclass(frozen=True)
class Bar:
    """A figure and what it has to be; `met` is None where it could not be measured."""

    what: str
    figure: str
    wanted: str
    met: bool | None

    def __str__(self) -> str:
        verdict = {True: "met", False: "NOT MET", None: "not measured"}[self.met]
        return f"  {self.what:52} {self.figure:>16}   wanted {self.wanted:22} {verdict}"


def throughput(session: Session, rows: int) -> list[Bar]:
    """100,000 keys, sum/count/max, tumbling and sliding windows, and YSB."""
    # The span follows the rows, so that a shorter run has the same groups in a window as a long one.
    span_s = rows / 100_000
    tumbling = Aggregate(rows=rows, span_s=span_s)
    bars = []
    # Ratios wanted of the path that pyslash chooses by itself, of the row bridge, and of the Arrow path.
    for title, workload, wanted in (
        ("10 s tumbling", tumbling, (15.0, 6.0, 2.5)),
        ("10 s sliding by 1 s", replace(tumbling, slide_s=1), (50.0, 25.0, 15.0)),
        ("YSB", Ysb(rows=rows, span_s=span_s), (None, None, None)),
    ):
        outcomes = {outcome.engine: outcome for outcome in session.compare(title, workload, THROUGHPUT_ENGINES)}
        bars += _same_rows(title, outcomes)
        for engine, least in zip(THROUGHPUT_ENGINES[:-1], wanted, strict=True):
            rate, base = outcomes[engine].rate, outcomes[BASELINE].rate
            ratio = rate / base if rate and base else None
            figure = f"{ratio:.2f}x" if ratio else "-"
            met = None if ratio is None else least is None or ratio >= least
            bars.append(Bar(f"{title}: {engine} / {BASELINE}", figure, f">= {least}x" if least else "(no bar)", met))
    return bars


def latency(session: Session, _: int) -> list[Bar]:
    """Micro-batches of 1,000 rows, with a window closing in each of them and with none closing at all."""
    rows = LATENCY_ROWS * LATENCY_BATCHES
    closing = Aggregate(rows=rows, batches=LATENCY_BATCHES, span_s=float(WINDOW_S * LATENCY_BATCHES), keys=100)
    staying = replace(closing, span_s=WINDOW_S * 0.9)
    bars = []
    for title, workload in (
        ("1,000 rows a batch, windows closing", closing),
        ("1,000 rows a batch, none closing", staying),
    ):
        outcomes = {outcome.engine: outcome for outcome in session.compare(title, workload, LATENCY_ENGINES)}
        bars += _same_rows(title, outcomes)
        median = {name: batch_ms(outcome.runs) for name, outcome in outcomes.items()}
        both = bool(median["slash"] and median[BASELINE])
        wanted = f"< {median[BASELINE]:.0f} ms ({BASELINE})"
        bars.append(
            Bar(title, f"{median['slash']:.0f} ms", wanted, median["slash"] < median[BASELINE] if both else None)
        )
        bars.append(Bar(f"{title}: no aggregation", f"{median['noop']:.0f} ms", "(no bar)", True if both else None))
    return bars


def strategies(session: Session, rows: int) -> list[Bar]:
    """Merging late against repartitioning: YSB on two executors of one core each, over each transport of one host."""
    ysb, bars = Ysb(rows=rows, span_s=rows / 100_000), []
    for transport in ("shm", "tcp"):
        conf = {**session.conf, **TWO_EXECUTORS, "spark.slash.transport": transport}
        title = f"YSB, two executors, {transport}"
        outcomes = {one.engine: one for one in replace(session, conf=conf).compare(title, ysb, STRATEGIES)}
        bars += _same_rows(title, outcomes)
        merging, owning = (outcomes[name].rate for name in STRATEGIES)
        figure = f"{merging / owning:.2f}x" if merging and owning else "-"
        bars.append(Bar(f"{title}: slash / slash-uppar", figure, "(reported)", True if merging and owning else None))
    return bars


def memory(session: Session, rows: int) -> list[Bar]:
    """Ten times the rows with the same groups: pinned bytes follow the groups."""
    # Few keys, so that the fewer rows already meet every key in every window.
    many = Aggregate(rows=rows, span_s=100.0, keys=max(1, rows // 2_000))
    pinned = []
    for title, workload in (("a tenth of the rows", replace(many, rows=rows // 10)), ("all rows", many)):
        (outcome,) = session.compare(f"memory, {title}", workload, ("slash",))
        pinned.append(max((run["pinned_bytes"] for run in outcome.runs), default=0))
    few, all_rows = pinned
    ratio = all_rows / few if few and all_rows else None
    figure = f"{ratio:.2f}x" if ratio else "-"
    return [
        Bar(
            "pinned bytes at 10 times the rows, same groups", figure, "<= 1.2x", None if ratio is None else ratio <= 1.2
        )
    ]


BARS: dict[str, Callable[[Session, int], list[Bar]]] = {
    "throughput": throughput,
    "latency": latency,
    "strategies": strategies,
    "memory": memory,
}


def _same_rows(title: str, outcomes: dict[str, Outcome]) -> list[Bar]:
    checked = [outcome for outcome in outcomes.values() if outcome.correct is not None]
    wrong = [outcome.engine for outcome in checked if not outcome.correct]
    return [Bar(f"{title}: rows equal Spark batch", ", ".join(wrong) or f"{len(checked)} engines", "all", not wrong)]
