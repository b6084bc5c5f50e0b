"""Files of a query whose aggregates have changed: the old ones stay until a manifest names the new ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyslash.errors import CheckpointError
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import PlanSpec
from pyslash.state.durable import KEPT_SECONDS, MOST_FILES, MOST_SMALL, DurableState, Replacement
from pyslash.state.files.block_file import decode
from pyslash.state.files.directory import BlockDirectory, BlockFile
from pyslash.units import Epoch
from tests.inspect.state.conftest import written
from tests.support.two_epochs import PLAN, Written

__all__ = ["written"]

BEFORE = PlanIdentity(PlanSpec.decode(PLAN), ("k", "v"))
NOW = PlanIdentity(
    PlanSpec.decode(PLAN.replace("aggregate sum 2 1\n", "aggregate sum 2 1\naggregate avg 2 1\n")), ("k", "v")
)


def durable(written: Written, seconds: Callable[[], float] = time.monotonic) -> DurableState:
    directory = BlockDirectory(str(written.location / "slash" / "blocks"))

    def again(name: str) -> BlockFile:
        data = directory.content(name)
        return BlockFile(name, *directory.write(name, lambda file: file.write(data)), 0, "a" * 32, False)

    return DurableState(directory, [again(path.name) for path in written.files], seconds)


def test_old_files_stay_until_a_manifest_names_the_new_ones(written: Written) -> None:
    clock = [0.0]
    state = durable(written, lambda: clock[0])
    old = {path.name for path in written.files}
    state.replan(BEFORE, NOW, 1, 2)
    new = {file.name for file in state.files}
    assert new.isdisjoint(old)
    clock[0] = 1000
    state.clean()  # the epoch before is logged: no word of the new files yet
    assert state.directory.names() == old | new
    state.logged(state.files)
    clock[0] += KEPT_SECONDS - 1
    state.clean()
    assert state.directory.names() == old | new  # whoever reads the state may have yet to open them
    clock[0] += 1
    state.clean()
    assert state.directory.names() == new


def test_files_are_those_of_the_new_query(written: Written) -> None:
    state = durable(written)
    state.replan(BEFORE, NOW, 1, 2)
    for file in state.files:
        data = state.directory.read(file)
        assert all(NOW.text.encode() in block.head for block in decode(data, file.name))


def file(epoch: int, holder: str, size: int = 100, kind: str = "") -> BlockFile:
    return BlockFile(f"{epoch}-7-{kind or holder * 32}.arrow", size, 0, 10 * epoch, holder, bool(kind))


def test_a_snapshot_replaces_what_its_holder_had_written_by_then(written: Written) -> None:
    files = [file(epoch, holder) for epoch in range(MOST_FILES) for holder in "ab"]
    state = DurableState(durable(written).directory, files)
    assert "a" in state.want_snapshots()
    assert "a" not in state.need_snapshots()
    state.replace(Replacement(file(5, "a", 300, "snapshot-" + "c" * 32), Epoch(6), 0))
    assert "a" not in state.want_snapshots()
    named = state.with_epoch([file(8, "a"), file(8, "b")], 0)
    assert [one.epoch for one in named if one.holder == "a"] == [7, 5, 8]
    assert [one.epoch for one in named if one.holder == "b"] == [*range(MOST_FILES), 8]
    # Until a manifest names it, all is as it was; one that is ready in between waits for the next epoch.
    assert state.files == files
    assert state.with_epoch([file(8, "a"), file(8, "b")], 0) == named
    state.replace(Replacement(file(7, "b", 300, "snapshot-" + "d" * 32), Epoch(8), 0))
    state.logged(named)
    assert state.files == named
    later = state.with_epoch([file(9, "b")], 0)
    assert [(one.epoch, one.snapshot) for one in later if one.holder == "b"] == [(7, True), (9, False)]
    assert [one.epoch for one in later if one.holder == "a"] == [7, 5, 8]


def test_an_epoch_writes_a_snapshot_where_none_comes(written: Written) -> None:
    files = [file(epoch, "a") for epoch in range(8 * MOST_FILES)]
    state = DurableState(durable(written).directory, files)
    state.logged(files)
    assert "a" not in state.need_snapshots()  # it may merely be late
    state.refused.add("a")
    assert "a" in state.need_snapshots()
    assert "a" not in state.want_snapshots()
    whole = file(99, "a", 5000, "e" * 32)
    assert state.with_epoch([whole], 0) == [whole]


@pytest.mark.parametrize("first", [100, 10_000_000])
def test_runs_of_one_epoch_each_do_not_pile_up_files(written: Written, first: int) -> None:
    """As with `Trigger.AvailableNow`: no epoch follows that names what is written beside the one."""
    directory = durable(written).directory
    files = [BlockFile(f"0-1-{'a' * 32}.arrow", first, 0, 0, "a", True)]
    for epoch in range(1, 40 * MOST_FILES):
        run = DurableState(directory, files)
        whole = "a" in run.need_snapshots()
        size = 100 + (sum(one.bytes for one in files) if whole else 0)  # a snapshot has all that there is
        run.logged(run.with_epoch([BlockFile(f"{epoch}-{epoch + 1}-{'a' * 32}.arrow", size, 0, epoch, "a", whole)], 0))
        assert run.need_snapshots() == []  # later epochs leave it to what is written beside them
        files = run.files
        assert len(files) <= 8 * MOST_FILES + 1


def test_what_a_run_has_rewritten_in_part_goes_too(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    state = durable(written)
    before, write, calls = state.directory.names(), state.directory.write, list[str]()

    def full(name: str, fill: Any, **how: Any) -> Any:
        calls.append(name)
        if len(calls) == 2:
            raise CheckpointError("no space")
        return write(name, fill, **how)

    monkeypatch.setattr(state.directory, "write", full)
    with pytest.raises(CheckpointError):
        state.replan(BEFORE, NOW, 1, 2)
    assert len(state.directory.names()) == len(before) + 1
    state.forget_replanned()
    assert state.directory.names() == before


def test_what_a_run_has_rewritten_goes_with_it_unless_a_manifest_names_it(written: Written) -> None:
    state = durable(written)
    before = state.directory.names()
    state.replan(BEFORE, NOW, 1, 2)
    assert state.directory.names() > before
    state.forget_replanned()
    assert state.directory.names() == before
    state = durable(written)
    state.replan(BEFORE, NOW, 1, 2)
    state.with_epoch([], 0)  # of which nobody knows whether a manifest was written, if that has failed
    state.forget_replanned()
    assert {one.name for one in state.files} <= state.directory.names()


def test_one_file_stands_for_small_ones_between_snapshots(written: Written) -> None:
    snapshot = file(0, "a", 1 << 20, "snapshot-" + "c" * 32)
    few = [file(epoch, "a", 100 + epoch) for epoch in range(1, MOST_SMALL + 1)]
    others = [file(3, "b"), file(4, "b")]
    state = DurableState(durable(written).directory, [snapshot, *few, *others])
    assert state.want_folds() == {}  # the newest epoch's file is none of them
    files = [snapshot, *few, *others, file(MOST_SMALL + 1, "a")]
    state.logged(files)
    small = state.want_folds()
    assert {holder: sorted(one.epoch for one in held) for holder, held in small.items()} == {
        "a": [*range(1, MOST_SMALL + 1)]
    }
    folded = file(MOST_SMALL, "a", 900, "f" * 32)
    state.replace(Replacement(folded, folded.epoch, 0, frozenset(one.name for one in small["a"])))
    assert state.want_folds() == {}
    named = state.with_epoch([file(MOST_SMALL + 2, "a")], 0)
    assert named == [snapshot, *others, file(MOST_SMALL + 1, "a"), folded, file(MOST_SMALL + 2, "a")]
    state.logged(named)
    # It dwarfs the next ones, which are folded without it.
    later = [file(MOST_SMALL + 3 + more, "a", 10) for more in range(MOST_SMALL + 1)]
    state.logged([*named, *later])
    assert folded not in state.want_folds()["a"]


def test_no_more_is_folded_than_an_agent_has_room_for(written: Written) -> None:
    large = [file(epoch, "a", 32 << 20) for epoch in range(MOST_SMALL + 1)]
    state = DurableState(durable(written).directory, large)
    assert state.want_folds() == {}  # eight of them are as much as may be
    state.logged([file(epoch, "a", 15 << 20) for epoch in range(MOST_SMALL + 2)])
    assert len(state.want_folds()["a"]) == MOST_SMALL + 1


@pytest.mark.parametrize("names", [None, frozenset([f"0-7-{'a' * 32}.arrow"])], ids=["a snapshot", "a fold"])
def test_what_comes_behind_an_epochs_own_snapshot_is_not_named(written: Written, names: frozenset[str] | None) -> None:
    clock = [0.0]
    state = DurableState(durable(written).directory, [file(0, "a")], lambda: clock[0])
    since = state.rewritten("a")
    late = file(0, "a", 200, "snapshot-" + "c" * 32)
    whole = file(1, "a", 5000, "e" * 32)  # by an epoch, as nothing else had come for too long
    named = state.with_epoch([whole], 0)
    state.replace(Replacement(late, Epoch(0), since, names))
    state.logged(named)
    assert state.with_epoch([file(2, "a")], 0) == [whole, file(2, "a")]
    state.logged([whole, file(2, "a")])
    later = file(2, "a", 300, "snapshot-" + "d" * 32)
    state.replace(Replacement(later, Epoch(2), state.rewritten("a")))
    assert state.with_epoch([], 0) == [later]


def test_no_epoch_writes_a_snapshot_while_one_is_on_its_way(written: Written) -> None:
    state = DurableState(durable(written).directory, [file(epoch, "a") for epoch in range(8 * MOST_FILES)])
    state.under_way = "a"
    assert state.want_snapshots() == []
    state.refused.add("a")
    assert state.need_snapshots() == []
    state.under_way = ""
    assert state.need_snapshots() == ["a"]
