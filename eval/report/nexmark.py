"""`python -m eval nexmark`: the page about NEXMark, its queries as they are here and the figures of results files."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from eval.report.records import BASELINE, Comparison, Results
from eval.suites import nexmark_title
from eval.workloads.nexmark import LEFT_OUT, QUERIES, SELECTS

ENGINES = ("slash", BASELINE, "spark-hdfs", "flink", "flink-rocksdb")
TEXT = """\
# NEXMark

The queries of the [published benchmark](https://github.com/nexmark/nexmark) that Spark can express as streams, on
events of its configuration, beside Spark's state stores and Flink. This page is written by `python -m eval nexmark
--out docs/nexmark.md`, from the code that runs them and, where it has figures, from a results file.

```sh
make bench-nexmark                                   # 4 M events a query, every engine that has it
python -m eval suite nexmark --rows 10000000         # a fifth of these are the events of each query
python -m eval run --workload nexmark --q 5 --engines slash,spark-rocksdb,flink
python -m eval nexmark eval/results/FILE.jsonl --out docs/nexmark.md
```

**Events.** One stream of rows in Parquet, each a person, an auction or a bid (1:3:46), with the columns of all three
kinds; 10,000 events a second of event time. Half of the bids are on a hot auction, three quarters by a hot bidder,
three quarters of the auctions of a hot seller; a hundred auctions are open, and a thousand persons active, at a time.
Rows are as large as published: 100, 200 and 500 bytes. `--group N` mixes up the order of every N events, `--late` makes
a share of them late. Times have microseconds, so that a last bid is one bid; bidders' ids begin where persons' do, as
in Beam. [`events.py`](../eval/workloads/nexmark/events.py) has the rest.

**Queries.** Each is [a PySpark function](../eval/workloads/nexmark/queries.py) over streaming DataFrames; the watermark
is four seconds, as published. A run on pyslash has `spark.slash.mode=require` and fails if no epoch of it was
pyslash's. The rows of every measured run are held against plain Spark's stream, micro-batch by micro-batch; Flink's,
whose SQL is [here](../eval/workloads/nexmark/flink.py), in another run on a sample, by what its changes come to.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("results", type=Path, nargs="*", help="JSON lines of `python -m eval suite nexmark`")
    parser.add_argument("--out", type=Path, help="write the page here instead of printing it")


def main(args: argparse.Namespace) -> int:
    """0; the page is printed, or written."""
    text = page(Results.load(args.results).comparisons)
    if args.out:
        args.out.write_text(text)
    else:
        print(text, end="")
    return 0


def page(comparisons: Sequence[Comparison]) -> str:
    """The page: the queries, and the figures of the last comparison of each, if there is any."""
    return "\n".join([TEXT, queries(), left_out(), *([figures(comparisons)] if comparisons else [])])


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


def figures(comparisons: Sequence[Comparison]) -> str:
    """M events/s by query and engine, and in brackets pyslash's rate over the engine's."""
    by_title = {comparison.title: comparison for comparison in comparisons}
    rows = [
        [f"q{q}", *(_cell(by_title[title], engine) for engine in ENGINES)]
        for q in QUERIES
        if (title := nexmark_title(q)) in by_title
    ]
    first = next(iter(by_title.values())).first
    where = (
        f"Session {first.get('session', '?')}, commit {first.get('machine', {}).get('commit', '?')}; M events/s, and "
    )
    return "\n".join([where + "in brackets how much faster pyslash was.", "", _markdown(["query", *ENGINES], rows)])


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
    return text + {True: "", None: ", rows not compared", False: ", WRONG ROWS"}[runs.correct]


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
