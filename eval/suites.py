"""The sets of comparisons, by name: each a question, its workloads, and the engines that it is asked of.

`rows` scales a suite; workloads that are compared over a parameter have the same rows at every value of it. Slow
engines are measured on a prefix of the micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from eval.machine import memory_bytes
from eval.session import Comparison
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
    Spread,
    Workload,
    Ysb,
)
from eval.workloads.arbitrary import KINDS
from eval.workloads.nexmark import QUERIES, RATE, SELECTS


def nexmark_title(number: int) -> str:
    """Of the comparison of one query."""
    return f"NEXMark q{number}"


BASELINE = "spark-rocksdb"
DEFAULT = "spark-hdfs"  # Spark's default store
STORES = (BASELINE, DEFAULT)
BOUNDS = ("duckdb", "polars")
SLOW = (*STORES, f"{BASELINE}-default", "flink", "flink-rocksdb")
PACE = 100_000  # rows a second of event time: more rows are a longer stream, with the same groups in a window

TUMBLING = "10 s tumbling"
SLIDING = "10 s sliding by 1 s"
LARGE = "10 s tumbling, large micro-batches"
FLOORS = "10 s tumbling, without aggregating"
YSB = "YSB"
YSB_TWO = "YSB, two executors"
MANY_KEYS = "5 M keys, 10 s tumbling"
PINNED = ("memory, a tenth of the rows", "memory, all rows")
CLOSING = "1,000 rows a batch, windows closing"
STAYING = "1,000 rows a batch, none closing"
READ_ONLY = "read only"
LATE, LATE_SLIDING = (f"{title}, a part of the rows late" for title in (TUMBLING, SLIDING))
UPDATE, UPDATE_KEYS, COMPLETE = "update, by window", "update, 1 M keys, no window", "complete, no window"
UPDATE_SMALL = "update, 1,000 rows a batch, 1 M groups open"
UNIQUE, UNIQUE_TIMED = "deduplication, 1 M keys", "deduplication by key and time"
JOIN_WINDOW, JOIN_WITHIN = "join by key and 10 s window", "join by key within 10 s"
SKEWS = (0.0, 0.5, 1.0, 1.5)
EVEN, SKEWED = (f"keys by Zipf {exponent}" for exponent in (SKEWS[0], SKEWS[-1]))
# What `eval.bars` has bars for.
JUDGED = {TUMBLING, SLIDING, LARGE, FLOORS, YSB, YSB_TWO, MANY_KEYS, *PINNED, CLOSING, STAYING, EVEN, SKEWED}
JUDGED |= {LATE, LATE_SLIDING, UPDATE, UPDATE_KEYS, COMPLETE, UPDATE_SMALL, UNIQUE, UNIQUE_TIMED}
JUDGED |= {nexmark_title(number) for number in QUERIES}
WINDOW_S = 10


def windows(rows: int) -> list[Comparison]:
    """The headline: 100,000 keys, every path of pyslash against Spark's stores, and a batch bound.

    The stores are RocksDB, tuned and as it comes, and the default one. Engines that are measured against each other
    stand together: they take turns within minutes of one machine's day.
    """
    tumbling = Aggregate(rows=rows, span_s=rows / PACE)
    engines = ("slash", "slash-rows", "slash-arrow", BASELINE, DEFAULT, f"{BASELINE}-default", "duckdb")
    return [
        Comparison(TUMBLING, tumbling, (*engines, "polars"), _first(tumbling, 4)),
        Comparison(SLIDING, replace(tumbling, slide_s=1), engines, _first(tumbling, 1)),
    ]


def large(rows: int) -> list[Comparison]:
    """The tumbling query with all rows in each micro-batch, so that what Spark takes for one of any size is little."""
    workload = Aggregate(rows=8 * rows, span_s=8 * rows / PACE)
    engines = ("slash", "slash-rows", BASELINE, DEFAULT, "duckdb")
    return [Comparison(LARGE, workload, engines, _first(workload, 1))]


def peers(rows: int) -> list[Comparison]:
    """The headline's queries on what else there is, and on the floors of two paths."""
    tumbling = Aggregate(rows=rows, span_s=rows / PACE)
    others = ("slash", "flink")
    return [
        Comparison(f"{TUMBLING}, peers", tumbling, others, _first(tumbling, 2)),
        Comparison(f"{SLIDING}, peers", replace(tumbling, slide_s=1), (*others, "polars"), _first(tumbling, 1)),
        Comparison(FLOORS, tumbling, ("slash-rows", "noop", "slash-arrow", "bare-arrow"), repeats=2),
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
    engines = ("slash", "noop", BASELINE, "flink", "duckdb")
    return [
        Comparison(YSB, workload, engines, _first(workload, 4), repeats=2),
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
    many = Aggregate(rows=rows, span_s=rows / PACE, keys=5_000_000)
    heap = max(4, memory_bytes() * 6 // 10 >> 30)
    return [Comparison(MANY_KEYS, many, ("slash", "spark-hdfs", "duckdb"), _first(many, 4), memory=heap), *found]


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
    return [Comparison(READ_ONLY, ReadOnly(rows=rows // 2, span_s=rows / 2 / PACE), ("slash", BASELINE, *BOUNDS))]


def latency(_: int) -> list[Comparison]:
    """Forty micro-batches of 1,000 rows: with a window closing in each of them, and with none closing at all."""
    closing = Aggregate(rows=40_000, batches=40, span_s=WINDOW_S * 40.0, keys=100)
    staying = replace(closing, span_s=WINDOW_S * 0.9)
    engines = ("slash", BASELINE, "stateless")
    return [
        Comparison(CLOSING, closing, (*engines, "spark-rtm"), repeats=1),
        Comparison(STAYING, staying, engines, repeats=1),
    ]


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
    small = replace(keys, rows=groups + 50_000, batches=51, keys=groups, opens=True)
    engines = ("slash", *STORES)
    return [
        Comparison(UPDATE, by_window, engines, _first(by_window, 4), repeats=1),
        Comparison(UPDATE_KEYS, keys, engines, _first(keys, 4), repeats=1),
        Comparison(COMPLETE, complete, engines, _first(complete, 4), repeats=1),
        Comparison(UPDATE_SMALL, small, (*engines, "stateless"), repeats=1),
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
    """The user's own code over his own state, 20,000 keys of which each micro-batch has all."""
    found = []
    for kind in KINDS:
        workload = Arbitrary(rows=rows // 25, span_s=rows / PACE, keys=20_000, kind=kind)
        engines = ("slash-processors", BASELINE)
        found.append(Comparison(kind, workload, engines, _first(workload, 2), repeats=1))
    return found


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
    workload = BidderSessions(rows=rows, span_s=rows / PACE)
    engines = ("slash", "slash-rows", BASELINE, DEFAULT)
    return [Comparison("NB11", workload, engines, _first(workload, 2))]


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
        Comparison(JOIN_WITHIN, within, engines, _first(within, 2), repeats=1),
    ]


def nexmark(rows: int) -> list[Comparison]:
    """The published benchmark's queries, those without state last."""
    found = []
    for number, described in sorted(QUERIES.items(), key=lambda each: not each[1].has_state):
        workload = Nexmark(rows=rows // 5, span_s=rows / 5 / RATE, q=number)
        engines = ("slash", *STORES) if described.has_state else ("slash", BASELINE)
        flinks = ("flink", "flink-rocksdb") if number in SELECTS else ()
        first = _first(workload, 4) if described.has_state else {}
        found.append(Comparison(nexmark_title(number), workload, (*engines, *flinks), first))
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
}


def in_order(names: Iterable[str], rows: int) -> list[tuple[str, Comparison]]:
    """The comparisons of the named suites, each with its suite's name; what bars are judged by first.

    A session may run out of time.
    """
    found = [(name, comparison) for name in names for comparison in SUITES[name](rows)]
    return sorted(found, key=lambda each: each[1].title not in JUDGED)
