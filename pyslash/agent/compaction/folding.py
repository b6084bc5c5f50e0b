"""Which blocks of a query are folded into one, and how: in the arena, or on disk if they were spilled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pyslash._native import Arena, Plan, compact
from pyslash.agent.store import spill
from pyslash.agent.store.adopt import relocated
from pyslash.agent.store.block_set import BlockSet, Holding, LiveBlock, Outcome
from pyslash.agent.store.spiller import free_bytes
from pyslash.state.files.small import not_dwarfing
from pyslash.transport.reserved import write_all

if TYPE_CHECKING:
    from pyslash.agent.store.state import AgentState
from pyslash.units import BEYOND_EPOCHS, NO_EPOCH, ArenaOffset, Epoch

MAX_BLOCKS = 8
# Of the arena's size: the result of a fold is in memory once before it is written.
_MOST_ON_DISK = 0.5
_SLACK_BYTES = 1 << 20  # a result may have more segments than its inputs, each with its padding


def choose_inputs(blocks: Iterable[LiveBlock], first_live_pane: int) -> list[ArenaOffset]:
    """Offsets of the blocks to fold; empty if it is not worth it yet.

    All of them when more than half of the bytes are dead panes. Otherwise the small ones, once they are more than
    `MAX_BLOCKS`.
    """
    chosen = list(blocks)
    dead = sum(block.dead_bytes(first_live_pane) for block in chosen)
    if 2 * dead > sum(block.length for block in chosen):
        return [block.offset for block in chosen]
    small = not_dwarfing(chosen, lambda block: block.length)
    return [block.offset for block in small] if len(small) > MAX_BLOCKS else []


def live_bytes(blocks: Iterable[LiveBlock], first_live_pane: int) -> int:
    """Bytes of panes that are alive."""
    return sum(block.length - block.dead_bytes(first_live_pane) for block in blocks)


@dataclass(frozen=True)
class Fold:
    """Blocks to fold into one, all in the arena or all on disk. They stay pinned until `Folding.end`."""

    query: bytes
    plan: Plan
    block_set: BlockSet
    blocks: list[LiveBlock]
    first_live_pane: int
    on_disk: bool

    @property
    def offsets(self) -> list[ArenaOffset]:
        """Where they lie."""
        return [block.offset for block in self.blocks]


@dataclass(frozen=True)
class Folded:
    """The result of a fold: nothing if no pane is alive, else a block, and its bytes if it is on disk."""

    block: LiveBlock | None
    data: pa.Buffer | None = None


class Folding:
    """Begins and ends folds with the lock of the agent's state, and runs the long part without it."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def begin(self, failed: Sequence[BlockSet] = ()) -> Fold | None:
        """Blocks of some set that are worth folding, pinned, but of none that has `failed`; None if there are none."""
        state = self._state
        with state.lock:
            _, largest = free_bytes(state.arena)
            for query, held in state.queries.items():
                for block_set in held.block_sets():
                    is_busy = block_set.compacting or block_set.compacted is not None
                    if is_busy or any(block_set is other for other in failed):
                        continue
                    for on_disk in (False, True):
                        newest = _newest_epoch(block_set) if held.keeps_changes else None
                        chosen = choose_inputs(self._candidates(block_set, on_disk, newest), held.first_live_pane)
                        # All of it would be folded once more at each commit, to find no room once more.
                        live = live_bytes([block_set.live[offset] for offset in chosen], held.first_live_pane)
                        if chosen and (on_disk or block_set.no_room * live <= largest):
                            block_set.compacting = True
                            state.holding.pin(chosen)
                            blocks = [block_set.live[offset] for offset in chosen]
                            return Fold(query, held.plan, block_set, blocks, held.first_live_pane, on_disk)
        return None

    def fold(self, job: Fold) -> Folded:
        """The long part.

        Raises:
            ArenaFullError, SpillError: no room for the result.
        """
        if job.on_disk:
            return self._on_disk(job)
        return Folded(compacted(job.plan, self._state.arena, job.offsets, job.first_live_pane, job.query))

    def end(self, job: Fold, folded: Folded | None, needed: int = 0) -> None:
        """Keeps the result for the next commit; `folded` is None if there is none because it failed.

        `needed`: bytes that did not fit; until they do, the set is not folded in the arena again.
        """
        state = self._state
        with state.lock:
            state.holding.unpin(job.offsets)
            if not job.on_disk:
                job.block_set.no_room = needed / max(1, live_bytes(job.blocks, job.first_live_pane))
            outcome = None if folded is None else Outcome(tuple(job.blocks), folded.block)
            if folded is not None and folded.block is not None and folded.data is not None:
                state.holding.disk.keep(folded.block.offset, folded.data)
            held = state.queries.get(job.query)
            if held is not None and any(block_set is job.block_set for block_set in held.block_sets()):
                job.block_set.compacting = False
                job.block_set.compacted = outcome
                job.block_set.let_go_of_dead(state.holding, held.first_live_pane)
                state.counters["compactions" if outcome else "failed compactions"] += 1
            elif outcome is not None:
                state.holding.free_when_unpinned(outcome.offsets())

    def _candidates(self, block_set: BlockSet, on_disk: bool, newest: Epoch | None) -> list[LiveBlock]:
        disk = self._state.holding.disk
        blocks = [
            block
            for block in block_set.live.values()
            if (block.offset in disk) == on_disk and block.epoch != newest and block is not block_set.spilling
        ]
        if not on_disk:
            return blocks
        most, chosen = _MOST_ON_DISK * self._state.arena.size, []
        for block in sorted(blocks, key=lambda block: block.length):
            most -= block.length
            if most < 0:
                break
            chosen.append(block)
        return chosen

    def _on_disk(self, job: Fold) -> Folded:
        """Folds in a separate arena, over a file in the spill directory, because the agent's arena has no room."""
        holding, own = self._state.holding, self._state.arena
        with scratch_arena(self._state, sum(block.length for block in job.blocks)) as (arena, fd):
            offsets = [_copied(holding, block, job.query, arena, fd) for block in job.blocks]
            block = compacted(job.plan, arena, offsets, job.first_live_pane, job.query)
            if block is None:
                return Folded(None)
            offset = holding.disk.new_offset()
            head = relocated(block.head, job.query, own.incarnation, offset)
            body = arena.view(block.offset + len(head), block.length - len(head))
            data = spill.write(holding.disk.directory, [head, body])
        return Folded(LiveBlock.of(head), data)


@contextmanager
def scratch_arena(state: AgentState, held: int) -> Iterator[tuple[Arena, int]]:
    """An arena over a file in the spill directory, and that file: for blocks of `held` bytes, and what they fold into.

    Raises:
        SpillError: no room for it.
    """
    tables = state.arena.size - state.arena.capacity
    with spill.scratch_arena(state.holding.disk.directory, tables + 2 * held + _SLACK_BYTES) as made:
        yield made


def _newest_epoch(block_set: BlockSet) -> Epoch:
    return max((block.epoch for block in block_set.live.values() if block.epoch != BEYOND_EPOCHS), default=NO_EPOCH)


def compacted(
    plan: Plan, arena: Arena, offsets: list[ArenaOffset], first_live_pane: int, query: bytes
) -> LiveBlock | None:
    """The new published block; None if no pane was left."""
    head = compact(plan, arena, offsets, first_live_pane, query, BEYOND_EPOCHS)
    return LiveBlock.of(head) if head else None


def _copied(holding: Holding, block: LiveBlock, query: bytes, arena: Arena, fd: int) -> ArenaOffset:
    """A block in another arena, whose memory is the file `fd`; its offset there."""
    offset = arena.allocate(block.length, query, BEYOND_EPOCHS)
    head = relocated(block.head, query, arena.incarnation, offset)
    write_all(fd, head, offset)
    write_all(fd, holding.view(block, len(head), block.length - len(head)), offset + len(head))
    arena.publish(offset)
    return offset
