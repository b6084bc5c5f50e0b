"""A driver that is killed in the middle of an epoch and started again, on more or fewer executors."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest

from tests.faults.application import BATCHES, FIRST_STRUCK
from tests.faults.conftest import Applications
from tests.faults.points import MERGES_IN_TASKS
from tests.faults.strike import DRIVER_POINTS, TASK_POINTS


def restart(
    applications: Applications,
    points: list[list[str]],
    executors: list[int],
    sinks: list[str],
    conf: Mapping[str, str] | None = None,
) -> None:
    """A round for each list of points, its driver killed at each; the sinks of a round run at the same time."""
    applications.rounds = [
        {
            "name": f"driver killed {' and '.join(killed)}",
            "sinks": sinks,
            "conf": dict(conf or {}),
            "strikes": [{"fault": "kill driver", "point": point} for point in killed],
        }
        for killed in points
    ]
    for number in executors[:-1]:
        assert applications.run(number) == -signal.SIGKILL, applications.log()
    assert applications.run(executors[-1]) == 0, applications.log()
    assert [line["executors"] for line in applications.results() if "started" in line] == executors
    for given in applications.rounds:
        for sink in sinks:
            assert applications.tally(given, sink, len(given["strikes"])).exact


def test_a_query_whose_driver_is_killed_goes_on_with_more_executors_and_then_with_fewer(
    applications: Applications,
) -> None:
    restart(applications, [["mid-update", "after manifest"]], [1, 2, 1], ["files"])


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_a_driver_killed_at_any_point(applications: Applications) -> None:
    points = [*DRIVER_POINTS, *TASK_POINTS]
    executors = [(3, 5, 1)[index % 3] for index in range(len(points) + 1)]
    most = BATCHES - FIRST_STRUCK
    rounds = [points[index : index + most] for index in range(0, len(points), most)]
    restart(applications, rounds, executors, ["batch", "files"], MERGES_IN_TASKS)
