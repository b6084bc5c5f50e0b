"""`python -m eval nexmark`: the page about NEXMark, its queries as they are here and the figures of results files."""

from __future__ import annotations

import argparse
import statistics
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from eval.bars import verdicts
from eval.records import BASELINE, Comparison, Record, Results, Runs
from eval.suites import nexmark_large_title, nexmark_title
from eval.workloads.nexmark import LEFT_OUT, QUERIES, SELECTS

ENGINES = ("slash", BASELINE, "spark-hdfs", "flink", "flink-rocksdb")
SIZES = {"250,000": nexmark_title, "2.5 M": nexmark_large_title}  # events a micro-batch
HEADS = ("bar", "figure", "wanted")
PARTS = ("around", "update", "checkpoint", "commit, merge", "sink", "else")
WHERE_IT_GOES = (
    "**Where the time goes.** Milliseconds of a mean micro-batch of pyslash. *Around* is what Spark does before and "
    "after it runs a micro-batch, the same with any engine: listing files, its logs, planning. *Update* reads the rows "
    "and makes partial state, *checkpoint* writes it to files, *sink* merges, computes and writes the result; *else* "
    "is planning within the micro-batch, and what a run has no figure of."
)
TEXT = """\
# NEXMark

The queries of the [published benchmark](https://github.com/nexmark/nexmark) that Spark can express as streams, on
events of its configuration, beside Spark's state stores and Flink. This page is written by `python -m eval nexmark
--out docs/nexmark.md`, from the code that runs them and from a results file.

```sh
make bench-nexmark                                   # every query on every engine that has it (hours)
python -m eval suite nexmark --rows 10000000         # in micro-batches of half the size
python -m eval run --workload nexmark --q 5 --engines slash,spark-rocksdb,flink
python -m eval keep eval/results/FILE.jsonl --out eval/results/NEXMARK.jsonl
python -m eval nexmark eval/results/NEXMARK.jsonl --out docs/nexmark.md
```

**Events.** One stream of rows in Parquet, each a person, an auction or a bid (1:3:46), with the columns of all three
kinds; 10,000 events a second of event time. Half of the bids are on a hot auction, three quarters by a hot bidder,
three quarters of the auctions of a hot seller; a hundred auctions are open, and a thousand persons active, at a time.
Rows are as large as published: 100, 200 and 500 bytes. `--group N` mixes up the order of every N events, `--late` makes
a share of them late. Times have microseconds, so that a last bid is one bid; bidders' ids begin where persons' do, as
in Beam. [`events.py`](../eval/workloads/nexmark/events.py) has the rest.

**Queries.** Each is [a PySpark function](../eval/workloads/nexmark/queries.py) over streaming DataFrames; the watermark
is four seconds, as published. A run on pyslash has `spark.slash.mode=require` and fails if a measured micro-batch was
not pyslash's. What is measured is [the steady part](eval.md#steady-streams) of a stream of 70 M events; Flink runs a
job of a minute or more, with checkpoints every ten seconds, in a JVM that has run one before. The rows of the first
micro-batches are held against plain Spark's stream, one by one, in another run; Flink's, whose SQL is
[here](../eval/workloads/nexmark/flink.py), by what its changes come to, and the times of windows to the millisecond:
Flink's event time has no microseconds.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("results", type=Path, nargs="*", help="JSON lines of `python -m eval suite nexmark`")
    parser.add_argument("--out", type=Path, help="write the page here instead of printing it")


def main(args: argparse.Namespace) -> int:
    """0; the page is printed, or written."""
    text = page(Results.load(args.results))
    if args.out:
        args.out.write_text(text)
    else:
        print(text, end="")
    return 0


def page(results: Results) -> str:
    """The page: the queries; and, if there is any, the figures of the last comparison of each, and what they missed."""
    parts = [TEXT, queries(), left_out()]
    all_measured = []
    for size, title in SIZES.items():
        if measured := _by_query(results.comparisons, title):
            parts += [figures(measured, size), profile(measured)]
            all_measured += list(measured.values())
    if all_measured:
        parts.append(missed(all_measured))
    return "\n".join(parts)


def queries() -> str:
    """A line a query: what it does, its output mode, what was changed."""
    rows = [
        [
            f"q{q}",
            described.does,
            described.mode if described.has_state else "no state: plain Spark",
            described.changed or "-",
            "yes" if q in SELECTS else "-",
        ]
        for q, described in QUERIES.items()
    ]
    return _markdown(["query", "what", "output mode", "changed against the published SQL", "in Flink SQL"], rows)


def left_out() -> str:
    """The queries that are not there."""
    return _markdown(["not here", "why"], [[f"q{q}", why] for q, why in LEFT_OUT.items()])


def figures(by_query: Mapping[int, Comparison], size: str) -> str:
    """M events/s by query and engine, in brackets pyslash's rate over the engine's, and the means of these."""
    comparisons = list(by_query.values())
    rows = [[f"q{q}", *(_cell(compared, engine) for engine in ENGINES)] for q, compared in by_query.items()]
    stateful = [compared for q, compared in by_query.items() if QUERIES[q].has_state]
    means = [_mean(stateful, engine) for engine in ENGINES[1:]]
    sessions = sorted({(each.session, each.first.get("machine", {}).get("commit", "?")) for each in comparisons})
    machine = comparisons[0].first.get("machine", {})
    where = (
        f"**Micro-batches of {size} events.** Measured in "
        + " and ".join(f"session {session} at commit {commit}" for session, commit in sessions)
        + f", {machine.get('cpu', '?')}, {machine.get('cores', '?')} cores, PySpark {machine.get('pyspark', '?')}. "
        "M events/s, and in brackets how much faster pyslash was; the last line has the geometric means of the "
        "queries with state."
    )
    if not any(
        record.get("steady") for each in comparisons for runs in each.engines.values() for record in runs.records
    ):
        where += (
            " These figures are older than the way to measure that is described above: of streams of eight "
            "micro-batches, measured whole, with a digest of their rows in the sink."
        )
    table = _markdown(["query", *ENGINES], [*rows, ["with state", "", *means]])
    return "\n".join([textwrap.fill(where, 120), "", table])


def _by_query(comparisons: Sequence[Comparison], title: Callable[[int], str]) -> dict[int, Comparison]:
    """The last comparison of each query that has one, in the order of the queries."""
    return {q: each for q in QUERIES for each in comparisons if each.title == title(q)}


def profile(by_query: Mapping[int, Comparison]) -> str:
    """What a micro-batch of the queries with state takes, by part, in ms: the mean of all of a query's runs."""
    rows = []
    for q, compared in by_query.items():
        if QUERIES[q].has_state and (ours := _parts(compared.engines.get("slash"))):
            theirs = _parts(compared.engines.get(BASELINE))
            whole = [f"{sum(part.values()):.0f}" if part else "" for part in (ours, theirs)]
            rows.append([f"q{q}", *(f"{ours[part]:.0f}" if part in ours else "" for part in PARTS), *whole])
    heads = ["query", *PARTS, "all", f"all of {BASELINE}"]
    return "\n".join([textwrap.fill(WHERE_IT_GOES, 120), "", _markdown(heads, rows)])


def _parts(runs: Runs | None) -> dict[str, float]:
    """Means over micro-batches; empty without a run that tells Spark's phases."""
    records = [record for record in runs.records if record.get("spark_ms")] if runs else []
    batches = sum(len(record["batch_ms"]) for record in records)
    if not batches:
        return {}

    def mean(value: Callable[[Record], float]) -> float:
        return sum(map(value, records)) / batches

    known = {
        "update": mean(lambda record: record.get("update_ms", 0)),
        "commit, merge": mean(lambda record: record.get("commit_ms", 0) + record.get("merge_ms", 0)),
        "sink": mean(lambda record: record.get("sink_ms", 0)),
    }
    if any("checkpoint_ms" in record for record in records):
        known["checkpoint"] = mean(lambda record: record.get("checkpoint_ms", 0) + record.get("replica_ms", 0))
    within = mean(lambda record: record["spark_ms"]["addBatch"])
    around = mean(lambda record: record["spark_ms"]["triggerExecution"]) - within
    return {"around": around, **known, "else": within - sum(known.values())}


def missed(comparisons: Sequence[Comparison]) -> str:
    """The bars of NEXMark that these comparisons do not meet, or do not measure."""
    records = [record for each in comparisons for runs in each.engines.values() for record in runs.records]
    bars = [bar for bar in verdicts(records) if bar.what.startswith("NEXMark")]
    missed = [[bar.what, bar.figure, bar.wanted] for bar in bars if bar.met is False]
    unmeasured = [[bar.what, bar.wanted] for bar in bars if bar.met is None]
    lines = []
    if missed:
        lines += ["These bars ([`eval/bars.py`](../eval/bars.py)) were missed:", "", _markdown(HEADS, missed)]
    if unmeasured:
        lines += ["These were not measured in the session:", "", _markdown([HEADS[0], HEADS[2]], unmeasured)]
    return "\n".join(lines) or "All bars were met.\n"


def _mean(comparisons: Sequence[Comparison], engine: str) -> str:
    ratios = [ratio for compared in comparisons if (ratio := compared.ratio("slash", engine))]
    return f"{statistics.geometric_mean(ratios):.1f}x of {len(ratios)}" if ratios else ""


def _cell(comparison: Comparison, engine: str) -> str:
    runs = comparison.engines.get(engine)
    if runs is None:
        return ""
    if runs.rate is None:
        return runs.obstacle or "no figure"
    ratio = comparison.ratio("slash", engine) if engine != "slash" else None
    text = f"{runs.rate / 1e6:.3f}" + (f" ({ratio:.1f}x)" if ratio else "")
    if engine == "slash" and not any(record.get("epochs") for record in runs.records):
        text += ", plain Spark"
    text += {True: "", None: ", rows not compared", False: ", WRONG ROWS"}[runs.correct]
    return text + (f", failed: {runs.failed}" if runs.failed else "")


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
