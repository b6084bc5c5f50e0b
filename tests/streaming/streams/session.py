"""Runs many cases at once in one application, each on plain Spark and on pyslash, and tells where they differ."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

import pytest
from pyspark.sql import SparkSession

import pyslash
from pyslash.spark.release import is_from
from tests.streaming.streams.case import Case
from tests.streaming.streams.cells import FILES
from tests.streaming.streams.compare import differences
from tests.streaming.streams.draw import draw
from tests.streaming.streams.proven import keep
from tests.streaming.streams.run import SLASH, SPARK, Outcome, folder, run
from tests.streaming.streams.shrink import shrink
from tests.streaming.streams.sources import write

_OF_LATER_RELEASES = "whose zeros and NaNs Spark before 4.3 tells apart"
# A Python UDF above a columnar scan, as Delta's is, waits for ever in Spark 4.2: its worker is not sent what it reads.
_COLUMNAR_UDF = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
THREADS = int(os.environ.get("PYSLASH_STREAM_THREADS", "3"))


@dataclass
class Tally:
    """What was compared. `late`: rows, or partial rows, that plain Spark dropped; the others are what both gave."""

    streams: int = 0
    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    late: int = 0
    no_data_batches: int = 0
    restarts: int = 0
    errors: int = 0

    def __iadd__(self, other: Tally) -> Tally:
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))
        return self

    def __str__(self) -> str:
        return ", ".join(f"{part.name.replace('_', ' ')} {getattr(self, part.name)}" for part in fields(self))


@dataclass
class Comparison:
    """A case and what differed. `is_left`: pyslash leaves it to this release of Spark, so that nothing was compared."""

    case: Case
    tally: Tally
    lines: list[str]
    is_left: bool = False

    def __str__(self) -> str:
        return "\n".join([str(self.case), *self.lines])


class Application(Protocol):
    """A session of the application, or a server that makes some."""

    def newSession(self) -> SparkSession:
        """One whose configuration is its own."""


class Streams:
    """Runs cases in sessions of one application; `engines` other than the default make it test itself.

    `sources`: what the cells of seeds have; `servers`: of Kafka.
    """

    def __init__(
        self,
        spark: Application,
        engines: tuple[str, str] = (SPARK, SLASH),
        sources: tuple[str, ...] = FILES,
        servers: str = "",
    ) -> None:
        self._spark, self._engines, self._sources, self._servers = spark, engines, sources, servers
        self._local = threading.local()

    def compare(self, case: Case) -> Comparison:
        """Run a case on both engines. A stream that either of them refuses is a difference too, but for one whose keys
        Spark compares otherwise before 4.3.
        """
        outcomes = []
        with folder() as place:
            root = Path(place)
            write(case, root / "files")
            for number, engine in enumerate(self._engines):
                work = root / f"{number}"
                work.mkdir()
                try:
                    outcomes.append(run(case, self._session(), engine, root / "files", work, self._servers))
                except Exception as refusal:
                    if not is_from(4, 3) and str(refusal).endswith(_OF_LATER_RELEASES):
                        return Comparison(case, Tally(), [], is_left=True)
                    by = "Spark refuses what was drawn" if not outcomes else "refused"
                    return Comparison(case, Tally(), [f"{by}: {type(refusal).__name__}: {refusal}"])
        return Comparison(case, _tally(case, outcomes[0]), list(differences(case, *outcomes)))

    def seeds(self, seeds: Iterable[int]) -> Iterator[Comparison]:
        """Run the cases of some seeds, several at once."""
        return self.cases(draw(seed, self._sources) for seed in seeds)

    def cases(self, cases: Iterable[Case]) -> Iterator[Comparison]:
        """Run some cases, several at once."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from pool.map(self.compare, cases)

    def check(self, seeds: Iterable[int], results: Path, tries: int) -> Tally:
        """Run the cases of some seeds, keep in `results` what they show, and fail if one differs, with a small one."""
        return self.check_cases((draw(seed, self._sources) for seed in seeds), results, tries)

    def check_cases(self, cases: Iterable[Case], results: Path, tries: int) -> Tally:
        """The same of cases."""
        tally, differing = Tally(), []
        for comparison in self.cases(cases):
            tally += comparison.tally
            if comparison.is_left:
                continue
            keep(results, comparison.case, equal=not comparison.lines, rows=comparison.tally.rows_out)
            if comparison.lines:
                differing.append(comparison)
        if differing:
            found = ", ".join(str(comparison.case.seed) for comparison in differing)
            pytest.fail(f"streams differ from Spark's: {found}\n{self.smallest(differing[0], tries)}", pytrace=False)
        return tally

    def smallest(self, comparison: Comparison, tries: int) -> Comparison:
        """The same difference in a smaller case."""
        kind = _kind(comparison)

        def fails(case: Case) -> bool:
            try:
                return _kind(self.compare(case)) == kind
            except Exception:  # what was dropped was needed: Spark refuses the rest
                return False

        return self.compare(shrink(comparison.case, fails, tries))

    def _session(self) -> SparkSession:
        """A session of this thread's own: a stream's configuration must not be another's."""
        if not hasattr(self._local, "session"):
            self._local.session = self._spark.newSession()
            if not is_from(4, 3):
                self._local.session.conf.set(_COLUMNAR_UDF, "false")
        session: SparkSession = self._local.session
        return session


@contextmanager
def streams(
    spark: SparkSession,
    engines: tuple[str, str] = (SPARK, SLASH),
    sources: tuple[str, ...] = FILES,
    servers: str = "",
) -> Iterator[Streams]:
    """Streams of an application, which pyslash is enabled in meanwhile; other engines make the harness test itself."""
    pyslash.enable(spark)
    # Sinks and sums that fail as they are to fill pages, in which the one difference would be lost.
    logging.disable()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield Streams(spark, engines, sources, servers)
    finally:
        spark.sparkContext.setLogLevel("ERROR")
        logging.disable(logging.NOTSET)
        pyslash.disable()


def _kind(comparison: Comparison) -> str:
    """What must stay the same while a case shrinks: an error must not become another one, nor a figure a row."""
    first = comparison.lines[0] if comparison.lines else ""
    if first.startswith("Spark ends"):
        return first
    return re.sub(r"^batch \d+: ", "", first).split(":")[0].removesuffix("Spark").removesuffix("pyslash")


def _tally(case: Case, outcome: Outcome) -> Tally:
    return Tally(
        streams=1,
        rows_in=case.rows,
        rows_out=outcome.rows,
        batches=len(outcome.ids),
        late=outcome.dropped,
        no_data_batches=max(0, len(outcome.ids) - case.batches),
        restarts=len(case.runs) - 1 + outcome.errors.count("SinkFailedError"),
        errors=sum(error != "SinkFailedError" for error in outcome.errors),
    )
