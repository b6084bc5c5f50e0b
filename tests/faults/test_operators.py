"""Every stateful operator, struck by every kind of loss at every point of an epoch. Micro-batches stay Spark's."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.faults.conftest import Applications
from tests.faults.operators import OPERATORS
from tests.faults.strike import (
    BETWEEN_POINT,
    COMPACTED_POINT,
    DRIVER_POINTS,
    FAULTS_INSIDE,
    FOLDED_POINT,
    GATHER_POINTS,
    PUBLISH_POINT,
    PUBLISHED_POINT,
    READING_POINTS,
    SINK_POINT,
)
from tests.support.processors import WHY_NOT

Strike = tuple[str, str, int, bool]
"""A fault, the point where it strikes, the operator's place in a chain, and whether it needs `GATHERED`."""
# Two blocks of an epoch are folded, everything is merged by tasks; a call to a stopped agent is given up.
CONF = {"fold.blocks": "1", "merge.driverBytes": "0", "ingest": "rows", "agent.callTimeout": "3"}
STOP_SECONDS = 8  # longer than a call may take
GATHERED = {"transport": "tcp"}
# Tasks that stand still are run a second time.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "3s",
}
FAULTS = ("exception", "kill agent", "kill executor", "stop agent", *FAULTS_INSIDE)
DAMAGED_POINT = "mid-landing"
OF_THE_QUERY = (SINK_POINT, "between the sink's write and Spark's commit")
SLICES = 7  # as many as there are faults at a point
_SLICE = os.environ.get("PYSLASH_CHAOS", "0")  # or `all`
DRAWN = range(SLICES) if _SLICE == "all" else [int(_SLICE) % SLICES]


def points(operator: str, fault: str) -> Iterator[tuple[str, int, bool]]:
    """Where a fault can strike: the point, the operator's place in a chain, and whether it needs `GATHERED`."""
    given = OPERATORS[operator]
    last = int(given.chained)
    if fault == "kill worker":  # where there are some
        yield from ((point, 0, False) for point in (PUBLISH_POINT, "mid-update"))
        return
    if fault == "damage":
        yield from ((DAMAGED_POINT, place, True) for place in range(last + 1))
        return
    for place in range(last + 1):
        if fault not in FAULTS_INSIDE:
            yield from ((point, place, False) for point in DRIVER_POINTS if point not in OF_THE_QUERY)
        if fault != "kill driver":  # its tasks die with it, wherever they are
            by_python = given.in_python and place == 0
            reading = (PUBLISH_POINT if by_python and point == PUBLISHED_POINT else point for point in READING_POINTS)
            yield from ((point, place, False) for point in reading)
            yield from ((point, place, True) for point in GATHER_POINTS)
    if fault not in FAULTS_INSIDE:
        yield from ((point, last, False) for point in OF_THE_QUERY)
        yield "mid-update", 0, False
        if given.compacts:
            yield COMPACTED_POINT, 0, False
        if given.folds:
            yield FOLDED_POINT, 0, False
        if last:
            yield BETWEEN_POINT, 0, False


def rounds(applications: Applications, operator: str, struck: Iterable[Strike]) -> None:
    """Make rounds of one operator, each of as many strikes as it has epochs."""
    strikes = list(struck)
    given = OPERATORS[operator]
    most = applications.most_strikes
    for gathered in (False, True):
        these = [strike for strike in strikes if strike[3] is gathered]
        for number, begin in enumerate(range(0, len(these), most)):
            some = these[begin : begin + most]
            label = f"{operator}: {', '.join(dict.fromkeys(fault for fault, *_ in some))}"
            applications.rounds.append(
                {
                    "name": f"{label.replace(':', ',')}{', gathered' if gathered else ''}, {number}",
                    "label": label,
                    "operator": operator,
                    "sinks": [given.sink],
                    "conf": {**CONF, **given.conf, **(GATHERED if gathered else {})},
                    "strikes": [
                        {"fault": fault, "point": point, "operator": at, "stop_seconds": STOP_SECONDS}
                        for fault, point, at, _ in some
                    ],
                }
            )


QUICK: dict[str, list[Strike]] = {
    "groups, update": [
        ("exception", "block published", 0, False),
        ("kill agent", "blocks taken", 0, False),
        ("kill agent", FOLDED_POINT, 0, False),
        ("kill executor", "blocks taken", 0, False),
    ],
    "outer join": [
        ("exception", "landing made", 0, True),
        ("damage", "mid-landing", 0, True),
        ("kill peer", "mid-landing", 0, True),
        ("kill agent", "peer landed", 0, True),
    ],
    "unique rows in windows": [
        ("kill agent", BETWEEN_POINT, 0, False),
        ("kill executor", "blocks folded", 1, False),
        ("exception", "after manifest", 1, False),
        ("kill agent", SINK_POINT, 1, False),
    ],
    "processor in windows": [
        ("kill worker", PUBLISH_POINT, 0, False),
        ("kill agent", COMPACTED_POINT, 0, False),
        ("kill agent", BETWEEN_POINT, 0, False),
        ("kill executor", "after manifest", 1, False),
    ],
}


def named(operator: str, number: int) -> Any:
    """A slice of an operator as a parameter."""
    spelled = f"{operator}-{number}".replace(", ", "-").replace(" ", "-")
    skip = pytest.mark.skipif(not OPERATORS[operator].covered, reason=WHY_NOT)
    return pytest.param(operator, number, marks=skip, id=spelled)


def faults_of(operator: str) -> tuple[str, ...]:
    """Every fault that can befall it."""
    return (*FAULTS, "kill worker") if OPERATORS[operator].in_python else FAULTS


def check(applications: Applications) -> None:
    """Every fault has struck, and no row was lost, doubled or is wrong."""
    results = {line["round"]: line for line in applications.results() if "round" in line}
    missed = {given["name"]: results[given["name"]]["missed"] for given in applications.rounds}
    tallies = [
        applications.tally(given, sink, results[given["name"]]["struck"])
        for given in applications.rounds
        for sink in given["sinks"]
    ]
    assert not any(missed.values()), missed
    for given in applications.rounds:
        assert (results[given["name"]]["late_rows"] > 0) is OPERATORS[given["operator"]].drops_late, given["name"]
    assert all(tally.exact for tally in tallies), tallies


@pytest.mark.parametrize("struck_inside", [8], indirect=True)
def test_faults_inside_tasks_and_agents_change_no_row(struck_inside: Applications) -> None:
    for operator, strikes in QUICK.items():
        if OPERATORS[operator].covered:
            rounds(struck_inside, operator, strikes)
    assert struck_inside.run(2, 800) == 0, struck_inside.log()
    check(struck_inside)


def every_strike(operator: str) -> Iterator[Strike]:
    """Every fault at every point where it can strike."""
    for fault in (*faults_of(operator), "kill driver"):
        yield from ((fault, *where) for where in points(operator, fault))


def slice_of(operator: str, number: int) -> list[Strike]:
    """One fault at each point of an operator: others in each slice, and, as far as it goes, at each point."""
    faults = defaultdict[tuple[str, int, bool], list[str]](list)
    for fault, point, place, gathered in every_strike(operator):
        faults[point, place, gathered].append(fault)
    begin = [*OPERATORS].index(operator) + number
    return [(here[(begin + index) % len(here)], *where) for index, (where, here) in enumerate(faults.items())]


def test_slices_have_every_fault_at_every_point() -> None:
    for operator in OPERATORS:
        slices = [slice_of(operator, number) for number in range(SLICES)]
        assert {strike for strikes in slices for strike in strikes} == {*every_strike(operator)}


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("operator", "number"), [named(operator, number) for number in DRAWN for operator in OPERATORS]
)
def test_a_fault_at_every_point_of_an_operator(struck_inside: Applications, operator: str, number: int) -> None:
    strikes = slice_of(operator, number)
    straggling = [strike for strike in strikes if strike[0] == "straggle"]
    rounds(struck_inside, operator, (strike for strike in strikes if strike not in straggling))
    for _ in range(sum(fault == "kill driver" for fault, *_ in strikes)):
        assert struck_inside.run(2, 1500) == -signal.SIGKILL, struck_inside.log()
    assert struck_inside.run(2, 1500) == 0, struck_inside.log()
    if straggling:
        rounds(struck_inside, operator, straggling)
        assert struck_inside.run(2, 1500, **SPECULATION) == 0, struck_inside.log()
    check(struck_inside)
