"""`pyslash explain job.py`: which of a job's queries pyslash covers. The job runs, and none of its queries starts.

What the job does besides (batch queries, files that it writes) it does. Its queries are looked at where it would start
them, with its session and its settings, and each of its calls of `start()` and `toTable()` gets a query that has ended.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from pyslash.api import job_arguments
from pyslash.driver.backlog import as_started
from pyslash.driver.coverage_check import covered_operators
from pyslash.driver.start.hook import QueryStart
from pyslash.driver.start.rehearsal import rehearse
from pyslash.ingest.data_paths import data_paths
from pyslash.plan.explain import explain
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.reasons import Uncovered, fallback_of
from pyslash.spark import session
from pyslash.spark.writer import WriterSettings

_COVERED, _NOT_COVERED, _NOTHING_KNOWN = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Run a job without starting its streaming queries, and say of each whether pyslash covers it. Exit status: "
        f"{_COVERED} if all that keep state are covered, {_NOT_COVERED} if one is not, {_NOTHING_KNOWN} if the job "
        "failed or starts no query."
    )
    job_arguments.add(parser)


def main(args: argparse.Namespace) -> int:
    """Explain the job's queries; returns the exit status."""
    job_arguments.submit(args)
    found: list[Finding] = []
    failed = _ran_into_an_error(args.job, args.arguments, found)
    if not found and not failed:
        print(f"pyslash: {args.job} starts no streaming query", file=sys.stderr)
    kept = [finding for finding in found if finding.keeps_state]
    covered = sum(finding.is_covered for finding in kept)
    print(f"\n{len(found)} queries, {len(kept)} of them with state: pyslash covers {covered}")
    if failed or not found:
        return _NOTHING_KNOWN
    return _COVERED if covered == len(kept) else _NOT_COVERED


@dataclass(frozen=True)
class Finding:
    """A query that the job would have started."""

    text: str
    is_covered: bool
    keeps_state: bool


def finding_of(df: DataFrame, settings: WriterSettings) -> Finding:
    """Whether pyslash would run a query, by the same checks as when it starts. No sink is opened or made."""
    spark = df.sparkSession
    session.check_classic(spark)
    conf = session.conf_of(spark)
    rows = as_started(df, settings, conf)
    reasons: list[Uncovered] = []

    def operators() -> list[OperatorPlan]:
        try:
            found, _ = covered_operators(rows, settings, conf)
        except Uncovered as reason:
            reasons.append(reason)
            raise
        return found

    text = explain(operators, lambda operator: data_paths(rows, operator, conf))
    keeps_state = not reasons or fallback_of(reasons[0]).has_state
    if conf.mode == "off":
        return Finding("pyslash: spark.slash.mode=off, so it runs on plain Spark", False, keeps_state)
    return Finding(text, not reasons, keeps_state)


class _Closed(BaseException):
    """Nobody reads any more: what the job would catch as an error of its own, it does not catch."""


def _line_of(job: str) -> int | None:
    """The line of the job that is being run."""
    lines = [frame.lineno for frame in traceback.extract_stack() if frame.filename == job]
    return lines[-1] if lines else None


def _ran_into_an_error(job: str, arguments: list[str], found: list[Finding]) -> bool:
    """Rehearse the job, and tell each query it comes to; whether it failed, which is said on standard error."""

    def look(query: QueryStart) -> None:
        found.append(finding_of(query.rows, query.settings))
        place = f"{Path(job).name}, line {_line_of(job)}"
        try:
            print(f"query {query.settings.query_name or len(found)} ({place})\n{found[-1].text}", flush=True)
        except BrokenPipeError as error:
            raise _Closed from error

    try:
        rehearse(job, arguments, look)
    except SystemExit as end:
        failed = end.code not in (None, 0)
        if failed:
            print(f"pyslash: {job} ended with {end.code}", file=sys.stderr)
        return failed
    except _Closed as closed:
        raise BrokenPipeError from closed
    except Exception:
        traceback.print_exc()
        print(f"pyslash: {job} failed, so queries behind this place are not known", file=sys.stderr)
        return True
    return False
