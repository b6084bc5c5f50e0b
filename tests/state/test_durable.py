"""Files of a query whose aggregates have changed: the old ones stay until a manifest names the new ones."""

from __future__ import annotations

from pyslash.plan.identity import PlanIdentity
from pyslash.plan.spec import PlanSpec
from pyslash.state.block_file import decode
from pyslash.state.directory import BlockDirectory, BlockFile
from pyslash.state.durable import DurableState
from tests.inspect.state.conftest import PLAN, Written, written

__all__ = ["written"]

BEFORE = PlanIdentity(PlanSpec.decode(PLAN), ("k", "v"))
NOW = PlanIdentity(
    PlanSpec.decode(PLAN.replace("aggregate sum 2 1\n", "aggregate sum 2 1\naggregate avg 2 1\n")), ("k", "v")
)


def durable(written: Written) -> DurableState:
    directory = BlockDirectory(str(written.location / "slash" / "blocks"))

    def again(name: str) -> BlockFile:
        data = directory.content(name)
        return BlockFile(name, *directory.write(name, lambda file: file.write(data)), 0, "a" * 32, False)

    return DurableState(directory, [again(path.name) for path in written.files])


def test_old_files_stay_until_a_manifest_names_the_new_ones(written: Written) -> None:
    state = durable(written)
    old = {path.name for path in written.files}
    state.replan(BEFORE, NOW, 1, 2)
    new = {file.name for file in state.files}
    assert new.isdisjoint(old)
    state.clean()  # the epoch before is logged: no word of the new files yet
    assert state.directory.names() == old | new
    state.logged(state.files)
    state.clean()
    assert state.directory.names() == new


def test_files_are_those_of_the_new_query(written: Written) -> None:
    state = durable(written)
    state.replan(BEFORE, NOW, 1, 2)
    for file in state.files:
        data = state.directory.read(file)
        assert all(NOW.text.encode() in block.head for block in decode(data, file.name))
