"""The sets of comparisons, by name: each a question, its workloads, and the engines that it is asked of.

`rows` scales a suite: what eight micro-batches have. What bars are judged by is the steady part of long streams; sweeps
over a parameter are short streams, measured whole, with the same rows at every value, slow engines on a prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from eval.machine import memory_bytes
from eval.session import Comparison
from eval.steady import Steady
from eval.workloads import (
    Aggregate,
    Arbitrary,
    Arcon,
    BidderSessions,
    CategoryLoad,
    Deduplicated,
    Grouped,
    HighestBid,
    JobLoad,
    JobUse,
    Joined,
    NewSellers,
    Nexmark,
    ReadOnly,
    Shape,
    Spread,
    Workload,
    Ysb,
)
from eval.workloads.arbitrary import CALLS, VARIABLES
from eval.workloads.nexmark import QUERIES, RATE, SELECTS
from eval.workloads.shapes import KINDS as SHAPES
from eval.workloads.shapes import QUANTILES


def nexmark_title(number: int) -> str:
    """Of the comparison of one query."""
    return f"NEXMark q{number}"


def nexmark_large_title(number: int) -> str:
    """Of the comparison of one query with large micro-batches."""
    return f"{nexmark_title(number)}, large micro-batches"


BASELINE = "spark-rocksdb"
DEFAULT = "spark-hdfs"  # Spark's default store
STORES = (BASELINE, DEFAULT)
BOUNDS = ("duckdb", "polars")
SLOW = (*STORES, f"{BASELINE}-default", "flink", "flink-rocksdb")
PACE = 100_000  # rows a second of event time: more rows are a longer stream, with the same groups in a window

TUMBLING = "10 s tumbling"
STRINGS = "10 s tumbling, string keys"
SLIDING = "10 s sliding by 1 s"
LARGE = "10 s tumbling, large micro-batches"
FLOORS = "10 s tumbling, paths and floors"
YSB = "YSB"
YSB_TWO = "YSB, two executors"
MANY_KEYS = "5 M keys, 10 s tumbling"
SESSIONS = "NB11, sessions"
PINNED = ("memory, a tenth of the rows", "memory, all rows")
CLOSING = "1,000 rows a batch, windows closing"
READ_ONLY = "read only"
LATE, LATE_SLIDING = (f"{title}, a part of the rows late" for title in (TUMBLING, SLIDING))
UPDATE, UPDATE_KEYS, COMPLETE = "update, by window", "update, 1 M keys, no window", "complete, no window"
UPDATE_SMALL = "update, 1,000 rows a batch, 1 M groups open"
UNIQUE, UNIQUE_TIMED = "deduplication, 1 M keys", "deduplication by key and time"
JOIN_WINDOW, JOIN_WITHIN = "join by key and 10 s window", "join by key within 10 s"
SKEWS = (0.0, 0.5, 1.0, 1.5)
EVEN, SKEWED = (f"keys by Zipf {exponent}" for exponent in (SKEWS[0], SKEWS[-1]))
# What `eval.bars` has bars for in `make eval`; NEXMark and Kafka have sessions of their own.
JUDGED = {TUMBLING, STRINGS, SLIDING, LARGE, YSB, MANY_KEYS, SESSIONS, CLOSING, UPDATE_SMALL, JOIN_WITHIN, READ_ONLY}
STEADY = Steady()
STEADY_LARGE = Steady(warm_batches=2, batches=10)
STEADY_SMALL = Steady(warm_batches=40)
STEADY_NEXMARK = Steady(warm_batches=4, batches=24)
LONG, LONG_FAST, LONG_LARGE, LONG_SMALL, LONG_NEXMARK = 120, 160, 32, 600, 280  # micro-batches
WINDOW_S = 10


def windows(rows: int) -> list[Comparison]:
    """The headline: 100,000 keys against Spark's stores: RocksDB, tuned and as it comes, and the default one."""
    whole = Aggregate(rows=rows, span_s=rows / PACE)
    tumbling = whole.lasting(LONG_FAST)
    stores = (BASELINE, f"{BASELINE}-default", DEFAULT)
    return [
        Comparison(TUMBLING, tumbling, ("slash", *stores), steady=STEADY),
        Comparison(STRINGS, replace(whole.lasting(LONG), text=True), ("slash", BASELINE), steady=STEADY),
        Comparison(SLIDING, replace(tumbling, slide_s=1), ("slash", BASELINE), steady=STEADY),
    ]


def large(rows: int) -> list[Comparison]:
    """The tumbling query with eight times the rows in each micro-batch, so that what Spark takes for one is little."""
    workload = Aggregate(rows=8 * rows, span_s=8 * rows / PACE).lasting(LONG_LARGE)
    return [Comparison(LARGE, workload, ("slash", BASELINE), steady=STEADY_LARGE)]


def peers(rows: int) -> list[Comparison]:
    """The headline's queries on what else there is, short and whole; and the path for rows beside its floor."""
    tumbling = Aggregate(rows=rows, span_s=rows / PACE)
    paths = ("slash", "slash-rows", "noop")
    others = ("slash", "flink", *BOUNDS)
    return [
        Comparison(f"{TUMBLING}, peers", tumbling, others, _first(tumbling, 2)),
        Comparison(f"{SLIDING}, peers", replace(tumbling, slide_s=1), others, _first(tumbling, 1)),
        Comparison(FLOORS, tumbling, paths, repeats=2),
    ]


def lengths(rows: int) -> list[Comparison]:
    """Windows and slides of other lengths."""
    found = []
    shorter = Aggregate(rows=rows // 4, span_s=rows / 4 / PACE)
    for window_s, slide_s in ((1, 1), (10, 5), (30, 30), (30, 1)):
        other = replace(shorter, window_s=window_s, slide_s=slide_s)
        title = f"{window_s} s " + ("tumbling" if window_s == slide_s else f"sliding by {slide_s} s")
        found.append(Comparison(title, other, ("slash", "duckdb"), repeats=2))
    return found


def ysb(rows: int) -> list[Comparison]:
    """Yahoo's benchmark: a join below the aggregation, so that rows come from Spark; then between two executors."""
    workload = Ysb(rows=rows // 2, span_s=rows / 2 / PACE)
    return [
        Comparison(YSB, workload.lasting(LONG), ("slash", "noop", BASELINE, "flink"), steady=STEADY),
        Comparison(YSB_TWO, workload, ("slash-2x", "slash-repartition-2x"), repeats=2),
        Comparison(f"{YSB}, one executor", workload, ("slash", "slash-repartition"), repeats=2),
        Comparison(f"{YSB_TWO}, transports", workload, ("slash-2x", "slash-tcp-2x"), repeats=2),
    ]


def cardinality(rows: int) -> list[Comparison]:
    """From one key to ten million; and the state stores' worst case, 5 M keys, with as much heap as Spark may want."""
    quarter = Aggregate(rows=rows // 4, span_s=rows / 4 / PACE)
    found = []
    for keys in (1, 10_000, 1_000_000, 10_000_000):
        workload = replace(quarter, keys=keys)
        engines = ("slash", "slash-repartition", "spark-hdfs", "duckdb")
        found.append(Comparison(f"{keys:,} keys, 10 s tumbling", workload, engines, _first(workload, 2), repeats=2))
    many = Aggregate(rows=rows, span_s=rows / PACE, keys=5_000_000).lasting(LONG // 2)
    heap = max(4, memory_bytes() * 6 // 10 >> 30)
    return [Comparison(MANY_KEYS, many, ("slash", DEFAULT), memory=heap, steady=STEADY), *found]


def skew(rows: int) -> list[Comparison]:
    """Keys by Zipf: a hot key is one entry of a table on every executor, or one task's whole share of a shuffle."""
    even = Aggregate(rows=rows // 2, span_s=rows / 2 / PACE)
    engines = ("slash", "slash-repartition", "spark-hdfs")
    return [
        Comparison(f"keys by Zipf {exponent}", workload, engines, _first(workload, 1))
        for exponent in SKEWS
        for workload in (replace(even, skew=exponent),)
    ]


def arcon(rows: int) -> list[Comparison]:
    """A costly function a row, with even and with skewed partitions of the ids."""
    found = []
    for iterations in (100, 500, 1000):
        for partitions in ("uniform", "skewed"):
            workload = Arcon(rows=rows // 20, span_s=WINDOW_S * 8.0, partitions=partitions, iterations=iterations)
            title = f"Arcon, {partitions}, {iterations} iterations a row"
            found.append(Comparison(title, workload, ("slash", "spark-hdfs"), repeats=1))
    return found


def monitoring(rows: int) -> list[Comparison]:
    """Cluster monitoring's queries, two with sixty windows a row and one tumbling; and NEXMark's highest bid."""
    engines = ("slash", *STORES, "flink", *BOUNDS)
    found = []
    for title, kind in (("CM1", CategoryLoad), ("CM2", JobLoad), ("CM", JobUse), ("NB7", HighestBid)):
        workload = kind(rows=rows // 4, span_s=240.0)
        found.append(Comparison(title, workload, engines, _first(workload, 1 if workload.windows_a_row > 1 else 4)))
    return found


def batches(rows: int) -> list[Comparison]:
    """The same rows in two, twenty, two hundred micro-batches."""
    found = []
    for count in (2, 20, 200):
        workload = Aggregate(rows=rows // 10, span_s=rows / 10 / PACE, batches=count)
        first = dict.fromkeys(STORES, count // 10) if count > 10 else {}
        title = f"{workload.rows // count:,} rows a micro-batch"
        found.append(Comparison(title, workload, ("slash", *STORES), first))
    return found


def readonly(rows: int) -> list[Comparison]:
    """A query without state, which is Spark's own whether pyslash is there or not."""
    workload = ReadOnly(rows=rows // 2, span_s=rows / 2 / PACE).lasting(LONG)
    return [Comparison(READ_ONLY, workload, ("slash", BASELINE), steady=STEADY)]


def latency(_: int) -> list[Comparison]:
    """Micro-batches of 1,000 rows, a window closing in each."""
    closing = Aggregate(rows=1_000 * LONG_SMALL, batches=LONG_SMALL, span_s=WINDOW_S * float(LONG_SMALL), keys=100)
    return [Comparison(CLOSING, closing, ("slash", BASELINE, "stateless"), steady=STEADY_SMALL)]


def late(rows: int) -> list[Comparison]:
    """Every twentieth row late, many of them beyond the watermark; the oracle is plain Spark's own stream."""
    workload = Aggregate(rows=rows // 4, span_s=rows / 4 / PACE, keys=10_000, late=0.05)
    few = replace(workload, rows=rows // 20, slide_s=1)
    engines = ("slash", "slash-rows", BASELINE)
    return [Comparison(LATE, workload, engines, repeats=1), Comparison(LATE_SLIDING, few, engines, repeats=1)]


def modes(rows: int) -> list[Comparison]:
    """Update and complete mode; and small micro-batches that touch few of many open groups."""
    by_window = Grouped(rows=rows, span_s=rows / PACE, by_window=True)
    keys = replace(by_window, by_window=False, keys=1_000_000)
    complete = replace(by_window, by_window=False, mode="complete")
    groups = min(rows // 20, 1_000_000)
    small = replace(keys, rows=groups + 1_000 * (LONG_SMALL - 1), batches=LONG_SMALL, keys=groups, opens=True)
    engines = ("slash", *STORES)
    return [
        Comparison(UPDATE, by_window, engines, _first(by_window, 4), repeats=1),
        Comparison(UPDATE_KEYS, keys, engines, _first(keys, 4), repeats=1),
        Comparison(COMPLETE, complete, engines, _first(complete, 4), repeats=1),
        Comparison(UPDATE_SMALL, small, ("slash", BASELINE, "stateless"), steady=STEADY_SMALL),
    ]


def deduplication(rows: int) -> list[Comparison]:
    """Keys that are kept for all time, and keys with the event time, which are dropped."""
    unique = Deduplicated(rows=rows, span_s=rows / PACE, keys=1_000_000)
    timed = replace(unique, keys=100_000, by_time=True)
    engines = ("slash", *STORES)
    return [
        Comparison(UNIQUE, unique, engines, _first(unique, 4), repeats=1),
        Comparison(UNIQUE_TIMED, timed, engines, _first(timed, 4), repeats=1),
    ]


def arbitrary(rows: int) -> list[Comparison]:
    """The user's own code over his own state, 20,000 keys of which each micro-batch has all.

    Of lists, maps and timers, over which Spark takes many times as long, eight micro-batches of a quarter.
    """
    long = Arbitrary(rows=rows // 25, span_s=rows / PACE, keys=20_000).lasting(LONG)
    short = Arbitrary(rows=rows // 100, span_s=rows / 10 / PACE, keys=5_000)
    engines = ("slash-processors", BASELINE)
    return [
        *(Comparison(kind, replace(long, kind=kind), engines, steady=STEADY) for kind in CALLS),
        *(Comparison(kind, replace(short, kind=kind), engines, repeats=1) for kind in VARIABLES),
    ]


def shapes(rows: int) -> list[Comparison]:
    """Queries of shapes that one meets in jobs, each with state enough for its store to be what costs."""
    whole = Shape(rows=rows // 4, span_s=rows / 4 / PACE)
    fewer = replace(whole, rows=rows // 20, slide_s=1, keys=10_000, kind=QUANTILES)
    kinds = [fewer if kind == QUANTILES else replace(whole, kind=kind) for kind in SHAPES]
    return [Comparison(each.kind, each, ("slash", BASELINE), repeats=1) for each in kinds]


def memory(rows: int) -> list[Comparison]:
    """Pinned bytes, which follow the groups, not the rows."""
    # Few keys, so that the fewer rows already meet every key in every window.
    groups = Aggregate(rows=rows, span_s=100.0, keys=max(1, rows // 2_000))
    few = replace(groups, rows=rows // 10)
    return [
        Comparison(title, each, ("slash",), repeats=1, cold=True)
        for title, each in zip(PINNED, (few, groups), strict=True)
    ]


def sessions(rows: int) -> list[Comparison]:
    """Sessions of 100,000 bidders: Spark shuffles and sorts every row of them."""
    workload = BidderSessions(rows=rows, span_s=rows / PACE).lasting(LONG)
    return [Comparison(SESSIONS, workload, ("slash", BASELINE), steady=STEADY)]


def functions(rows: int) -> list[Comparison]:
    """Distinct values, whose registers native code keeps, and medians, whose buffers are made by Spark's own code."""
    medians = Spread(rows=rows // 4, span_s=rows / 4 / PACE)
    distinct = replace(medians, median=False)
    engines = ("slash", *STORES)
    return [
        Comparison("distinct values, 10 s tumbling", distinct, engines, _first(distinct, 4)),
        Comparison("distinct values and medians, 10 s tumbling", medians, engines, _first(medians, 4)),
    ]


def joins(rows: int) -> list[Comparison]:
    """Joins of two streams, with a million rows or so of state; NB8's windows of 12 hours keep half of the rows."""
    within = Joined(rows=rows // 4, span_s=rows / 4 / PACE)
    half_days = NewSellers(rows=rows // 10)
    tens = NewSellers(rows=rows // 10, span_s=max(rows / 10 / PACE, 40.0), window_h=10 / 3600)
    engines = ("slash", *STORES)
    return [
        Comparison("NB8, windows of 12 h", half_days, engines, repeats=1),
        Comparison("NB8, windows of 10 s", tens, engines, repeats=1),
        Comparison(JOIN_WINDOW, replace(within, by_window=True), engines, _first(within, 2), repeats=1),
        Comparison(JOIN_WITHIN, within.lasting(LONG), ("slash", BASELINE), steady=STEADY),
    ]


def nexmark(rows: int) -> list[Comparison]:
    """The published benchmark's queries, those without state last, in micro-batches of 250,000 events."""
    return _nexmark(Nexmark(rows=rows // 10, span_s=rows / 10 / RATE).lasting(LONG_NEXMARK), nexmark_title)


def nexmark_large(rows: int) -> list[Comparison]:
    """The same in micro-batches of 2.5 M events."""
    return _nexmark(Nexmark(rows=rows, span_s=rows / RATE).lasting(LONG_NEXMARK // 10), nexmark_large_title)


def _nexmark(events: Nexmark, title: Callable[[int], str]) -> list[Comparison]:
    found = []
    for number in sorted(QUERIES, key=lambda number: not QUERIES[number].has_state):
        flinks = ("flink", "flink-rocksdb") if number in SELECTS else ()
        found.append(
            Comparison(title(number), replace(events, q=number), ("slash", BASELINE, *flinks), steady=STEADY_NEXMARK)
        )
    return found


def _first(workload: Workload, micro_batches: int) -> Mapping[str, int]:
    return dict.fromkeys(SLOW, min(micro_batches, workload.batches))


SUITES: dict[str, Callable[[int], list[Comparison]]] = {
    "windows": windows,
    "large": large,
    "latency": latency,
    "late": late,
    "modes": modes,
    "deduplication": deduplication,
    "ysb": ysb,
    "arbitrary": arbitrary,
    "shapes": shapes,
    "memory": memory,
    "peers": peers,
    "skew": skew,
    "cardinality": cardinality,
    "lengths": lengths,
    "readonly": readonly,
    "batches": batches,
    "monitoring": monitoring,
    "sessions": sessions,
    "functions": functions,
    "joins": joins,
    "arcon": arcon,
    "nexmark": nexmark,
    "nexmark-large": nexmark_large,
}


def in_order(names: Iterable[str], rows: int) -> list[tuple[str, Comparison]]:
    """The comparisons of the named suites, each with its suite's name; what bars are judged by first.

    A session may run out of time.
    """
    found = [(name, comparison) for name in names for comparison in SUITES[name](rows)]
    return sorted(found, key=lambda each: each[1].title not in JUDGED)
