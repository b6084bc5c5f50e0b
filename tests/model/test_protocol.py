"""The epoch protocol under thousands of schedules, and under schedules with a protection taken away.

`PYSLASH_SCHEDULES` sets how many in all, `PYSLASH_FIRST_SCHEDULE` where they start.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from tests.model.agents import Agent, Fill
from tests.model.schedule import KINDS, WRITE, Fault, Kind, Schedule
from tests.model.spark import Query, violation
from tests.model.unsafe import (
    with_functions_called_again,
    with_manifests_overwritten,
    with_runs_of_the_checkpoint_alone,
    with_spilled_blocks_folded,
    without_attempt_filtering,
    without_checksums,
    without_fencing,
    without_fingerprints,
    without_leaving,
    without_offsets,
    without_resync,
    without_told_times,
)
from tests.model.world import Violation

SCHEDULES = int(os.environ.get("PYSLASH_SCHEDULES", "1000"))
FIRST = int(os.environ.get("PYSLASH_FIRST_SCHEDULE", "0"))
_MOST_TRIED = 1000


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of recoveries are no news here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(60 + SCHEDULES)
@pytest.mark.parametrize(
    ("durability", "strategy", "mode", "schedules"),
    [
        ("checkpoint", "merge", "require", 0.4),
        ("both", "merge", "require", 0.15),
        ("replica", "merge", "require", 0.1),
        ("checkpoint", "merge", "auto", 0.1),
        ("checkpoint", "repartition", "require", 0.15),
        ("both", "repartition", "require", 0.1),
    ],
)
def test_no_schedule_loses_doubles_or_changes_a_row(
    capsys: pytest.CaptureFixture[str], durability: str, strategy: str, mode: str, schedules: float
) -> None:
    struck: Counter[Kind] = Counter()
    epochs = rows = late = 0

    def count(query: Query) -> None:
        nonlocal epochs, rows, late
        struck.update(query.world.struck)
        epochs += len(query.commits)
        rows += sum(map(len, query.sink.values()))
        late += query.late_rows

    ran, wanted = 0, round(schedules * SCHEDULES)
    for number in range(FIRST, FIRST + wanted):
        schedule = Schedule.numbered(number, KINDS[mode])
        if violation(schedule, count, durability, strategy, mode) is not None:
            pytest.fail(_told(schedule, durability, strategy, mode))
        ran += 1
    with capsys.disabled():
        print(
            f"\n{durability}, {strategy}, {mode}: {ran} schedules, {struck.total()} faults, {epochs} epochs, "
            f"{rows} rows, {late} late rows dropped",
            end=": ",
        )
        print("none lost, doubled or wrong")
    assert ran == wanted
    of_block_files = WRITE | {Kind.READ_FLIPPED} if durability == "replica" else frozenset()  # it writes none
    assert not any(struck[kind] for kind in of_block_files), struck
    if wanted >= 400:
        assert all(struck[kind] > wanted // 100 for kind in set(KINDS[mode]) - of_block_files), struck
        assert late > wanted


def test_a_schedule_is_the_same_run_each_time() -> None:
    traces: list[list[str]] = []
    for _ in range(2):
        violation(Schedule.numbered(7), lambda query: traces.append(query.world.trace))
    assert traces[0] == traces[1]
    assert len(traces[0]) > 20


@pytest.mark.parametrize("number", [5, 46])
def test_a_discard_may_come_at_any_time(number: int) -> None:
    failing = Schedule(number, (Fault(Kind.JOB_FAILS, 3),))
    calls: list[str] = []
    violation(failing, lambda query: calls.extend(line for line in query.world.trace if " calls " in line))
    discards = [index for index, line in enumerate(calls) if "calls discard" in line]
    assert discards
    for index in discards:
        late = replace(failing, faults=(*failing.faults, Fault(Kind.DELAYED, index)))
        assert violation(late) is None


@pytest.mark.parametrize("number", [0, 5, 11, 85, 106, 187])
def test_a_batch_that_is_computed_again_is_late_to_no_agent(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Agents sweep what is published up to the epoch that they have committed."""
    publish, late = Agent.publish, list[bool]()

    def look(agent: Agent, plan: str, fill: Fill, watermark_us: int, query: bytes, epoch: int, attempt: int) -> bytes:
        state = agent.state.queries.get(query)
        late.append(state is not None and epoch <= state.epoch)
        return publish(agent, plan, fill, watermark_us, query, epoch, attempt)

    monkeypatch.setattr(Agent, "publish", look)
    kinds = (Kind.REWOUND, Kind.REPAIRED, Kind.OFFSETS_LOST, Kind.SINK_FAILS)
    assert violation(Schedule.numbered(number, kinds)) is None
    assert late
    assert not any(late)


def test_with_standbys_alone_agents_may_be_lost_as_fast_as_the_query_recovers() -> None:
    """One after the other: each as soon as the run that the loss before it has led to has begun."""
    ran, wanted = 0, round(0.2 * SCHEDULES)
    for number in range(FIRST, FIRST + wanted):
        finished = _survives_three_losses(number)
        ran += finished is not None
        assert finished is not False, f"schedule {number}"
    assert ran > wanted / 6  # about a quarter is expected

    with without_resync():
        assert any(_survives_three_losses(number) is False for number in range(100))


def _survives_three_losses(number: int) -> bool | None:
    """Whether the first driver has brought the query to its end; None where nobody promises that.

    That is, where there is one executor only, or a job's function whose error is the query's.
    """
    chance = random.Random(number)
    faults = (Fault(Kind.AGENT_DIES, chance.randrange(120)), *[Fault(Kind.RECOVERED_DIES, 0)] * 2)
    finished: list[bool | None] = []

    def look(query: Query) -> None:
        if query.is_function or query.executors_at_first < 2:
            finished.append(None)
        else:
            finished.append(query.is_finished and len(query.world.drivers) == 1)

    if violation(Schedule(number, faults), look, "replica") is not None:
        pytest.fail(_told(Schedule(number, faults), "replica", "merge", "require"))
    return finished[0]


@pytest.mark.parametrize(
    ("unsafe", "kinds", "mode", "broken"),
    [
        (without_fencing, KINDS["require"], "require", " emits "),
        (with_runs_of_the_checkpoint_alone, (Kind.PUT_BACK, Kind.SINK_FAILS, Kind.DRIVER_DIES), "require", " emits "),
        # The state is gone: a manifest of the replaced driver names files that the newer one has swept away.
        (with_manifests_overwritten, (Kind.SECOND_DRIVER, Kind.AGENT_DIES), "require", "stuck after "),
        (without_checksums, (Kind.LINK_FLIPPED, Kind.FILE_FLIPPED, Kind.AGENTS_DIE), "require", " emits "),
        (without_attempt_filtering, KINDS["require"], "require", " emits "),
        (with_spilled_blocks_folded, (Kind.ARENA_FULL,), "require", " emits "),
        (without_offsets, (Kind.DRIVER_DIES, Kind.SINK_FAILS, Kind.OFFSETS_LOST), "require", " emits "),
        (without_fingerprints, (Kind.DRIVER_DIES, Kind.SINK_FAILS, Kind.REPAIRED), "require", " emits "),
        (without_told_times, (Kind.DRIVER_DIES, Kind.SINK_FAILS), "require", "Spark knows 0 event times"),
        (with_functions_called_again, (Kind.AGENT_DIES, Kind.SINK_FAILS), "require", "is called again"),
        (without_leaving, (Kind.CREATE_UNACKED, Kind.DRIVER_DIES, Kind.SINK_FAILS), "auto", "stuck after "),
    ],
)
def test_without_a_protection_the_model_finds_wrong_or_lost_rows(
    unsafe: Callable[[], AbstractContextManager[None]], kinds: tuple[Kind, ...], mode: str, broken: str
) -> None:
    def breaks(schedule: Schedule) -> bool:
        with unsafe():
            return broken in str(violation(schedule, mode=mode))

    found = next(schedule for schedule in _numbered(_MOST_TRIED, kinds) if breaks(schedule))
    assert violation(found, mode=mode) is None  # with the protection, the same faults do nothing


def _numbered(count: int, kinds: tuple[Kind, ...]) -> Iterator[Schedule]:
    return (Schedule.numbered(number, kinds) for number in range(count))


def _told(schedule: Schedule, durability: str, strategy: str, mode: str) -> str:
    """The violation with only those faults that it takes."""

    def found(fewer: Schedule) -> Violation | None:
        return violation(fewer, durability=durability, strategy=strategy, mode=mode)

    smallest = schedule.shrunk(lambda fewer: found(fewer) is not None)
    broken = found(smallest)
    return f"schedule {schedule.number} as {smallest}:\n{broken}\n" + "\n".join(getattr(broken, "__notes__", []))


@pytest.mark.parametrize("number", [2668])
def test_shares_that_were_cut_from_files_are_none_of_a_manifest(number: int) -> None:
    """A run has restored one agent's files to two, and fails before a manifest says so: memory is no whole state."""
    assert violation(Schedule.numbered(number, KINDS["require"]), durability="both") is None
