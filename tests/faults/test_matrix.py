"""Faults of tasks, workers, agents and executors of a cluster, each at a named point of an epoch. Rows stay Spark's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.application import BATCHES, FIRST_STRUCK
from tests.faults.conftest import Applications
from tests.faults.points import MERGES_IN_TASKS, UPDATES_IN_PYTHON
from tests.faults.strike import DRIVER_POINTS, FAULTS, OWNER_POINT, PUBLISH_POINT, TASK_POINTS

Strikes = list[tuple[str, str]]  # (fault, point), each an epoch after the other
# A call to a stopped agent is given up before the agent goes on.
CONF = {**MERGES_IN_TASKS, "agent.callTimeout": "3"}
REPARTITION = {"strategy": "repartition"}
STOP_SECONDS = 8
MOST = 3  # strikes of a round, with an epoch for one that has to wait for somebody to strike
LOSSES = ("kill agent", "kill executor")
SETTLED = DRIVER_POINTS[DRIVER_POINTS.index("after checkpoint") : DRIVER_POINTS.index("after commit") + 1]
ALL_POINTS = (*DRIVER_POINTS, *TASK_POINTS)
POINTS = {
    **dict.fromkeys(FAULTS, ALL_POINTS),
    "duplicate": (PUBLISH_POINT,),
    "zombie": DRIVER_POINTS[DRIVER_POINTS.index("after checkpoint") :],
    "put back": DRIVER_POINTS,
}
del POINTS["kill driver"]  # test_driver_restart


def may_end(sink: str, fault: str, point: str) -> bool:
    """Whether a query may end by this strike: the batch failed by itself, or under the job's own function.

    The function may be the first to meet a loss that comes when the epoch is durable, and before its rows are read.
    One that comes while an agent writes its file may come to that: the file may be written before the kill arrives.
    """
    if fault in ("exception", "put back") and point in DRIVER_POINTS:
        return True
    return sink == "batch" and (point == "mid-merge" or (fault in LOSSES and point in ("mid-checkpoint", *SETTLED)))


def strike(applications: Applications, rounds: dict[str, tuple[str, Strikes]], **more: Any) -> None:
    """Run rounds, each (sink, strikes), in one application of two executors; every strike happens, no row changes."""
    applications.rounds = [
        {
            "name": name,
            "sinks": [sink],
            "conf": {**CONF, **more.get("conf", {}), **more.get("conf_of", {}).get(name, {})},
            "strikes": [
                {"fault": fault, "point": point, "stop_seconds": more.get("stop_seconds", STOP_SECONDS)}
                for fault, point in strikes
            ],
        }
        for name, (sink, strikes) in rounds.items()
    ]
    assert max(len(strikes) for _, strikes in rounds.values()) <= BATCHES - FIRST_STRUCK
    assert applications.run(2, more.get("timeout", 900)) == 0, applications.log()
    results = {line["round"]: line for line in applications.results() if "round" in line}
    for name, (sink, strikes) in rounds.items():
        assert results[name]["struck"] == len(strikes), name
        # Restarted by its supervisor, a query recovers when it begins.
        ended, most = results[name]["ended"], sum(may_end(sink, fault, point) for fault, point in strikes)
        assert len(ended) <= most, f"{name}: {ended}"
        # Who dies in a task, or after another one, may be an executor that came just now, and holds nothing yet.
        is_lost = any(fault in LOSSES and point not in TASK_POINTS for fault, point in strikes)
        assert results[name]["recoveries"] + len(ended) >= is_lost, name
        assert applications.tally({"name": name}, sink, results[name]["struck"]).exact, name


def test_faults_of_every_kind_change_no_row(applications: Applications) -> None:
    rounds: dict[str, tuple[str, Strikes]] = {
        "nobody dies": (
            "batch",
            [
                ("duplicate", PUBLISH_POINT),
                ("stop agent", "after manifest"),
                ("zombie", "before release"),
            ],
        ),
        "everybody dies": (
            "files",
            [
                ("kill worker", "mid-merge"),
                ("kill agent", "mid-checkpoint"),
                ("kill executor", "mid-update"),
                ("kill executor", "after commit, before its answer"),
            ],
        ),
        "the checkpoint goes back": (
            "files",
            [("put back", "after manifest"), ("put back", "before release"), ("exception", "mid-update")],
        ),
    }
    strike(applications, rounds, conf_of={"nobody dies": UPDATES_IN_PYTHON}, timeout=900)


# The model has rows that are repartitioned in `make test`, too.
@pytest.mark.nightly
def test_faults_of_who_owns_keys_change_no_row(applications: Applications) -> None:
    rounds: dict[str, tuple[str, Strikes]] = {
        "owners try again": (
            "batch",
            [
                ("exception", OWNER_POINT),
                ("duplicate", PUBLISH_POINT),
                ("kill worker", OWNER_POINT),
                ("zombie", "before release"),
            ],
        ),
        "owners die": (
            "files",
            [("kill agent", "after publish"), ("kill executor", OWNER_POINT), ("kill agent", OWNER_POINT)],
        ),
    }
    conf_of = {"owners try again": UPDATES_IN_PYTHON}
    strike(applications, rounds, conf=REPARTITION, conf_of=conf_of, timeout=500)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", POINTS, ids=lambda fault: fault.replace(" ", "-"))
def test_a_fault_at_every_point(applications: Applications, fault: str) -> None:
    strikes = [(fault, point) for point in POINTS[fault]]
    rounds: dict[str, tuple[str, Strikes]] = {
        f"{fault} {begin}": (("batch", "files")[begin % 2], strikes[begin : begin + MOST])
        for begin in range(0, len(strikes), MOST)
    }
    in_python = fault in ("duplicate", "kill worker")  # else there are no workers
    strike(applications, rounds, timeout=3000, conf=UPDATES_IN_PYTHON if in_python else {})


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("durability", ["replica", "both"])
@pytest.mark.parametrize("fault", [*LOSSES, "stop agent"], ids=lambda fault: fault.replace(" ", "-"))
def test_a_loss_at_every_point_with_a_standby(applications: Applications, fault: str, durability: str) -> None:
    points = [point for point in ALL_POINTS if durability == "both" or point != "mid-checkpoint"]
    rounds: dict[str, tuple[str, Strikes]] = {
        f"{durability}, {fault} {point}": (("batch", "files")[index % 2], [(fault, point)])
        for index, point in enumerate(points)
    }
    strike(applications, rounds, timeout=3000, conf={"durability": durability})


@pytest.mark.chaos
def test_an_agent_that_stands_still_for_half_a_minute(applications: Applications) -> None:
    rounds: dict[str, tuple[str, Strikes]] = {
        f"agent stopped for 30 s {point}": ("batch", [("stop agent", point)])
        for point in ("mid-update", "mid-checkpoint", "after manifest")
    }
    strike(applications, rounds, conf={"agent.callTimeout": "10"}, stop_seconds=30, timeout=900)
