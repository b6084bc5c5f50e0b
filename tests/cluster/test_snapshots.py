"""A driver has agents write files that stand for others: in which order, and what a failure changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyslash.cluster.snapshots import Snapshots
from pyslash.errors import AgentUnavailableError, SpillError
from pyslash.protocol.messages import FoldFiles, Snapshot
from pyslash.state.durable import MOST_FILES, MOST_SMALL, DurableState
from pyslash.state.files.directory import BlockDirectory, BlockFile
from pyslash.units import Run

HOLDER = "a" * 32


class Group:
    """One agent, which answers, or fails as it is told."""

    names = (HOLDER,)

    def __init__(self) -> None:
        self.asked: list[Snapshot | FoldFiles] = []
        self.failure: Exception | None = None

    @contextmanager
    def another(self, _: str) -> Iterator[Group]:
        yield self

    def snapshot(self, request: Snapshot, _: float) -> dict[str, int]:
        return {"epoch": 7, **self.fold_files(request, _)}

    def fold_files(self, request: Snapshot | FoldFiles, _: float) -> dict[str, int]:
        self.asked.append(request)
        if self.failure is not None:
            raise self.failure
        return {"bytes": 100, "crc": 1, "last_pane": 5}


def made(tmp_path: Path, files: list[BlockFile]) -> tuple[Group, DurableState, Snapshots]:
    group: Any = Group()
    durable = DurableState(BlockDirectory(str(tmp_path)), files)
    return group, durable, Snapshots(group, durable, "plan", Run(3), 10, 1 << 20)


def small(count: int) -> list[BlockFile]:
    return [BlockFile(f"{epoch}-3-{HOLDER}.arrow", 10, 0, 0, HOLDER, False) for epoch in range(count)]


def large() -> BlockFile:
    return BlockFile(f"0-2-snapshot-{'c' * 32}.arrow", 1 << 20, 0, 0, HOLDER, True)


def test_a_snapshot_comes_before_a_fold(tmp_path: Path) -> None:
    group, durable, snapshots = made(tmp_path, small(MOST_SMALL + 1))
    assert MOST_SMALL >= MOST_FILES  # so both are due
    assert not snapshots.step()
    assert [type(one) for one in group.asked] == [Snapshot]
    durable.logged(durable.with_epoch([], 0))
    assert [file.epoch for file in durable.files] == [*range(8, MOST_SMALL + 1), MOST_SMALL]
    assert not snapshots.are_due


def test_small_files_beside_a_large_snapshot_are_folded(tmp_path: Path) -> None:
    group, durable, snapshots = made(tmp_path, [large(), *small(MOST_SMALL + 1)])
    assert snapshots.are_due
    assert not snapshots.step()
    (request,) = group.asked
    assert isinstance(request, FoldFiles)
    assert sorted(name for name, _, _ in request.files) == sorted(file.name for file in small(MOST_SMALL))
    assert not snapshots.are_due  # before a manifest names it
    durable.logged(durable.with_epoch([], 0))
    assert [file.name for file in durable.files] == [large().name, small(MOST_SMALL + 1)[-1].name, request.name]


@pytest.mark.parametrize("failure", [SpillError("no room"), AgentUnavailableError("gone")])
def test_a_fold_that_fails_leaves_the_files_as_they_are(
    tmp_path: Path, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    files = [large(), *small(MOST_SMALL + 1)]
    group, durable, snapshots = made(tmp_path, files)
    group.failure = failure
    for _ in range(3):
        assert snapshots.are_due
        snapshots.step()
    assert f"small files of the checkpoint could not be folded into one: {failure}" in caplog.text
    assert durable.with_epoch([], 0) == files
    assert not snapshots.are_due  # nor tried again in this run
    durable.logged(
        [*files, *small(60)[MOST_SMALL + 1 :], BlockFile(f"60-3-{HOLDER}.arrow", 2 << 20, 0, 0, HOLDER, False)]
    )
    group.failure = None
    snapshots.step()  # a snapshot is still written
    assert isinstance(group.asked[-1], Snapshot)


def test_nothing_is_asked_of_an_agent_that_is_gone_or_by_a_run_that_is_over(tmp_path: Path) -> None:
    group, _, snapshots = made(tmp_path, [large(), *small(MOST_SMALL + 1)])
    group.names = ()  # type: ignore[assignment]
    assert not snapshots.are_due
    group.names = (HOLDER,)
    snapshots.close()
    snapshots.step()
    assert group.asked == []


def test_a_slow_store_and_one_failure_leave_snapshots_beside_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [BlockFile(f"{epoch}-3-{HOLDER}.arrow", 1 << 30, 0, 0, HOLDER, False) for epoch in range(MOST_FILES)]
    group, durable, _ = made(tmp_path, files)
    snapshots = Snapshots(group, durable, "plan", Run(3), 120, 64 << 20)  # type: ignore[arg-type]
    seconds, answer = list[float](), group.snapshot

    def snapshot(request: Snapshot, timeout: float) -> dict[str, int]:
        seconds.append(timeout)
        return answer(request, timeout)

    monkeypatch.setattr(group, "snapshot", snapshot)
    group.failure = AgentUnavailableError("for a moment")
    snapshots.step()
    assert seconds[0] >= 8 * 1024 / 16  # 8 GiB at 16 MiB/s
    assert durable.want_snapshots() == [HOLDER]  # tried again beside epochs
