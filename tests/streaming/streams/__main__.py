"""Runs random streams and tells what differs.

python -m tests.streaming.streams 17                    one stream, shrunk if it differs
python -m tests.streaming.streams --first 0 --count 500 many of them
python -m tests.streaming.streams --until-differs       as many as it takes to see a difference
python -m tests.streaming.streams --self-test           plain Spark against itself
python -m tests.streaming.streams --others              those from topics and from Delta (scripts/pipelines.sh)
python -m tests.streaming.streams --connect URL         as clients of a Spark Connect server with the plugin
python -m tests.streaming.streams --page FILE ...       the page of what was seen equal, from the results of runs
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from eval.broker import broker, connector, delta
from eval.pipelines.job import DELTA_SETTINGS
from tests.streaming.streams.cells import FILES, OTHERS, cells
from tests.streaming.streams.draw import draw
from tests.streaming.streams.proven import keep, page, read
from tests.streaming.streams.run import SLASH, SPARK
from tests.streaming.streams.session import Comparison, Streams, Tally, streams
from tests.support.jvm import JAVA_OPTIONS, SMALL_PAGES
from tests.support.quiet_files import SETTINGS, quiet_files


def main(arguments: list[str]) -> int:
    """Whether streams differ."""
    options = _options(arguments)
    sources = OTHERS if options.others else FILES
    seeds = options.seeds or range(options.first, options.first + (options.count or len(cells(sources))))
    if options.page:
        print(page(read(options.page)), end="")
        return 0
    if options.draw:
        print(*(draw(seed, sources) for seed in seeds), sep="\n\n")
        return 0
    with _made(options, sources) as made:
        told = _Told(options, made, time.monotonic())
        told.run(seeds)
    print(f"{told.differing} of {told.tally.streams} streams differ, in {told.seconds:.0f} s: {told.tally}")
    return min(told.differing, 1)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.streaming.streams")
    parser.add_argument("seeds", type=int, nargs="*")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="as many as there are cells, by default")
    parser.add_argument("--tries", type=int, default=100, help="runs that shrinking a named seed may take")
    parser.add_argument("--others", action="store_true", help="sources that need a broker, and Delta")
    parser.add_argument("--connect", metavar="URL", help="of a Spark Connect server with the plugin")
    parser.add_argument("--until-differs", action="store_true", help="stop at the first difference")
    parser.add_argument("--every", type=int, default=100, help="tell how far it is after so many streams")
    parser.add_argument("--self-test", action="store_true", help="run plain Spark twice")
    parser.add_argument("--draw", action="store_true", help="only print the cases")
    parser.add_argument("--results", type=Path, help="a file that what was seen is added to")
    parser.add_argument("--page", type=Path, nargs="+", help="print the page of results")
    return parser.parse_args(arguments)


@contextmanager
def _made(options: argparse.Namespace, sources: tuple[str, ...]) -> Iterator[Streams]:
    engines = (SPARK, SPARK if options.self_test else SLASH)
    if options.connect:
        clients = Clients(options.connect)
        try:
            yield Streams(clients, engines, sources)
        finally:
            clients.stop()
        return
    if options.others:
        settings = {"spark.jars": f"{connector()},{delta()}", **DELTA_SETTINGS}
        with broker() as servers, streams(_session(settings), engines, sources, servers) as made:
            yield made
        return
    spark = _session(SETTINGS)
    with quiet_files(spark), streams(spark, engines, sources) as made:
        yield made


class Clients:
    """Those of a Spark Connect server. Garbage would close its channel wherever it is noticed, and wait there for a
    thread that waits for it.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._sessions: list[SparkSession] = []

    def newSession(self) -> SparkSession:
        """With a configuration of its own."""
        self._sessions.append(SparkSession.builder.remote(self._url).create())
        return self._sessions[-1]

    def stop(self) -> None:
        """The sessions end."""
        for session in self._sessions:
            session.stop()


@dataclass
class _Told:
    """What is printed of the streams as they end."""

    options: argparse.Namespace
    made: Streams
    begin: float
    differing: int = 0
    tally: Tally = field(default_factory=Tally)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def run(self, seeds: Iterable[int]) -> None:
        for comparison in self.made.seeds(seeds):
            self.tally += comparison.tally
            self._tell(comparison)
            if comparison.lines and self.options.until_differs:
                print(f"a difference in stream {self.tally.streams}, after {self.seconds:.0f} s")
                return
            if self.tally.streams % self.options.every == 0:
                print(f"{self.tally.streams} streams, {self.differing} differ, {self.seconds:.0f} s", flush=True)

    def _tell(self, comparison: Comparison) -> None:
        if self.options.results:
            keep(self.options.results, comparison.case, equal=not comparison.lines, rows=comparison.tally.rows_out)
        if comparison.lines:
            self.differing += 1
            named = bool(self.options.seeds)
            shown = self.made.smallest(comparison, self.options.tries) if named else comparison
            short = "\n".join([f"seed {shown.case.seed}: {shown.case.cell}", *shown.lines[:8]])
            print(shown if named else short, flush=True)


def _session(settings: dict[str, str]) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", JAVA_OPTIONS)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.slash.arena.size", "256m")
    return builder.config(map=SMALL_PAGES | settings).getOrCreate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
