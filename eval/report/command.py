"""`python -m eval report`: the table of some results files, and on request a report, a plot and the docs page."""

from __future__ import annotations

import argparse
from pathlib import Path

from eval.records import BASELINE, Results
from eval.report.docs_page import rewritten
from eval.report.figures import save_headline
from eval.report.page import page
from eval.report.table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "results", type=Path, nargs="+", help="JSON lines; or google-benchmark's JSON (make bench-native)"
    )
    parser.add_argument("--out", type=Path, help="write the report here, as one HTML file")
    parser.add_argument("--plot", type=Path, help="write the plot of the headline's throughput here (.svg, .png)")
    parser.add_argument("--docs", type=Path, metavar="PAGE", help="rewrite the generated parts of docs/benchmarks.md")
    parser.add_argument("--baseline", default=BASELINE, help="the engine that ratios are to")
    parser.add_argument("--title", default="pyslash, measured")


def main(args: argparse.Namespace) -> int:
    """0; the page is written before its path is printed."""
    results = Results.load(args.results)
    print(table(results.records, args.baseline))
    if args.plot:
        try:
            save_headline(args.plot, results, args.baseline)
        except ValueError as missing:
            raise SystemExit(f"--plot: {missing}; `python -m eval suite windows large` measures all of them") from None
    if args.docs:
        args.docs.write_text(rewritten(args.docs.read_text(), results))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(page(results, args.baseline, args.title))
        print(f"\nreport: {args.out}")
    return 0
