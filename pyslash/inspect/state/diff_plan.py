"""Would a job continue from a checkpoint? Its query is planned as it would start, and held against the state there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyslash.driver.backlog import as_started
from pyslash.driver.coverage_check import operators_of
from pyslash.driver.start.hook import QueryStart
from pyslash.driver.start.rehearsal import rehearse_until
from pyslash.errors import PlanMismatchError
from pyslash.plan.change.evolution import evolve
from pyslash.plan.change.identity import PlanIdentity, may_be_renamed
from pyslash.plan.reasons import Uncovered
from pyslash.spark.session import conf_of
from pyslash.state.manifest import Manifest
from pyslash.state.stored import StoredState
from pyslash.units import Epoch

SAME, REWRITTEN, INCOMPLETE, REFUSED = 0, 3, 4, 5
"""Exit statuses: it continues with the state as it is; with all of it, in other columns; without the rows so far for
some aggregates; not at all."""


@dataclass(frozen=True)
class Comparison:
    """A status, and the lines that say why."""

    status: int
    lines: list[str]


@dataclass(frozen=True)
class Planned:
    """What the job's query keeps state of, operator by operator, or why pyslash does not run it; and what its
    `spark.slash.plan.change` allows.
    """

    operators: list[PlanIdentity]
    obstacle: str
    change: str


def diff_plan(checkpoint: str, job: str, arguments: Sequence[str], query: str | None) -> Comparison:
    """Run a job until it would start its query, and compare that with the state in a checkpoint.

    Args:
        checkpoint: its location; a savepoint's is one, too.
        job: the path of a Python program.
        arguments: of the program.
        query: the name of the query; None: the first that the job starts.

    Raises:
        InvalidInputError: the job ends without such a query.
        CheckpointError, StateLostError: the checkpoint has no state, or it cannot be read.
    """
    held = [state.manifest() for state in StoredState.of_operators(checkpoint)]
    planned = _planned(checkpoint, job, arguments, query)
    if planned.obstacle:
        return Comparison(REFUSED, [f"pyslash does not run the query: {planned.obstacle}"])
    if len(held) != len(planned.operators):
        counts = f"the checkpoint has the state of {len(held)} operators, and the query has {len(planned.operators)}"
        return Comparison(REFUSED, [counts])
    found = [
        _compared(manifest, operator, planned.change)
        for manifest, operator in zip(held, planned.operators, strict=True)
    ]
    lines = []
    for index, (operator, one) in enumerate(zip(planned.operators, found, strict=True)):
        lines += [f"operator {index}, {operator.operator}: {_WORDS[one.status]}", *(f"  {line}" for line in one.lines)]
    return Comparison(max(one.status for one in found), lines)


_WORDS = {
    SAME: "continues with its state as it is",
    REWRITTEN: "continues with its whole history; its state is rewritten once",
    INCOMPLETE: "continues only if spark.slash.plan.change allows it",
    REFUSED: "does not continue",
}


def _compared(manifest: Manifest, query: PlanIdentity, change: str) -> Comparison:
    before = manifest.identity
    try:
        evolution = evolve(before, query, Epoch(manifest.epoch + 1))
    except PlanMismatchError as error:
        if may_be_renamed(before, query):
            return Comparison(INCOMPLETE, [_allowed("names", change)])
        return Comparison(REFUSED, [line.strip() for line in str(error).splitlines()])
    gained = dict(evolution.gained)
    known = {one.sql for one in before.aggregates}
    lines = [f"- {sql}" for sql in evolution.dropped]
    lines += [f"+ {sql}, of the rows since batch {since}" for sql, since in gained.items()]
    followed = dict.fromkeys(one.sql for one in query.aggregates if one.sql not in known and one.sql not in gained)
    lines += [f"+ {sql}, of all rows, from states that are there" for sql in followed]
    if gained:
        lines.append(_allowed("aggregates", change))
        if may_be_renamed(before, query):
            lines.append("or, if the columns are the same under other names: " + _allowed("names", change))
        return Comparison(INCOMPLETE, lines)
    if evolution.keeps_blocks:
        return Comparison(SAME, lines)
    if not manifest.in_checkpoint:
        return Comparison(
            REFUSED, [*lines, "its state would be rewritten, and is in memory alone (spark.slash.durability)"]
        )
    return Comparison(REWRITTEN, lines)


def _allowed(wanted: str, change: str) -> str:
    named = f"spark.slash.plan.change={wanted}"
    return f"the job has {named}, which allows it" if change == wanted else f"{named} would allow it"


def _planned(checkpoint: str, job: str, arguments: Sequence[str], wanted: str | None) -> Planned:
    def look(query: QueryStart) -> Planned:
        conf = conf_of(query.spark)
        rows = as_started(query.rows, query.settings, conf)
        try:
            operators, _ = operators_of(rows, query.settings.output_mode, conf, checkpoint)
        except Uncovered as reason:
            return Planned([], str(reason), conf.plan_change)
        return Planned([one.identity for one in operators], "", conf.plan_change)

    return rehearse_until(job, arguments, wanted, look)
