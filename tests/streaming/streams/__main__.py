"""Runs random streams and tells what differs.

python -m tests.streaming.streams 17                    one stream, shrunk if it differs
python -m tests.streaming.streams --first 0 --count 500 many of them
python -m tests.streaming.streams --self-test           plain Spark against itself
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from pyspark.sql import SparkSession

from tests.jvm import JAVA_OPTIONS, SMALL_PAGES
from tests.quiet_files import SETTINGS, quiet_files
from tests.streaming.streams.draw import draw
from tests.streaming.streams.run import SLASH, SPARK
from tests.streaming.streams.session import Tally, streams


def main(arguments: list[str]) -> int:
    """How many streams differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.streaming.streams")
    parser.add_argument("seeds", type=int, nargs="*")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--tries", type=int, default=100, help="runs that shrinking a named seed may take")
    parser.add_argument("--self-test", action="store_true", help="run plain Spark twice")
    parser.add_argument("--draw", action="store_true", help="only print the cases")
    options = parser.parse_args(arguments)
    seeds = options.seeds or range(options.first, options.first + options.count)
    if options.draw:
        print(*(draw(seed) for seed in seeds), sep="\n\n")
        return 0
    spark = _session()
    with quiet_files(spark), streams(spark, (SPARK, SPARK if options.self_test else SLASH)) as made:
        tally, differing, begin = Tally(), 0, time.monotonic()
        for number, comparison in enumerate(made.seeds(seeds), 1):
            tally += comparison.tally
            if number % 100 == 0:
                print(f"{number} streams, {differing + bool(comparison.lines)} differ", flush=True)
            if comparison.lines:
                differing += 1
                shown = made.smallest(comparison, options.tries) if options.seeds else comparison
                print(shown if options.seeds else "\n".join([f"seed {shown.case.seed}", *shown.lines[:8]]), flush=True)
    print(f"{differing} of {len(seeds)} streams differ, in {time.monotonic() - begin:.0f} s: {tally}")
    return min(differing, 1)


def _session() -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", JAVA_OPTIONS)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.slash.arena.size", "256m")
    return builder.config(map=SMALL_PAGES | SETTINGS).getOrCreate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
