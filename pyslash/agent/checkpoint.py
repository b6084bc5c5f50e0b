"""An agent's part in a query's checkpoint: it writes its blocks to files, and restores blocks from files."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyslash._native import Head, Plan
from pyslash.agent.compaction.folding import compacted, scratch_arena
from pyslash.agent.store.adopt import adopt
from pyslash.agent.store.block_set import LiveBlock
from pyslash.agent.store.lent import Lent
from pyslash.agent.store.query_state import QueryState
from pyslash.errors import AgentBusyError, FencedError, InvalidRequestError
from pyslash.protocol.messages import Checkpoint, EndSnapshots, FoldFiles, Restore, Snapshot, Take
from pyslash.state.files.block_file import StoredBlock, decode, write
from pyslash.state.files.directory import BlockDirectory, BlockFile, WrittenFile
from pyslash.state.files.paced_file import PacedFile

if TYPE_CHECKING:
    from pyslash.agent.store.state import AgentState
from pyslash.units import BEFORE_ALL_PANES, BEYOND_EPOCHS

# For the last piece of a file, and for the disk to have it.
_LAST_PIECE_SECONDS = 20.0


class Checkpointer:
    """Writes and reads files without the lock of the agent's state."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._lent = Lent(state)
        self._under_way: list[tuple[bytes, int]] = []  # the query and run of each snapshot
        self._fewer = threading.Condition()

    def checkpoint(self, query: bytes, request: Checkpoint) -> dict[str, Any]:
        """Writes the epoch's published blocks to a file before the commit; a snapshot also has all committed blocks.

        Raises:
            InvalidRequestError: an offset is no published block of this query and epoch.
            CheckpointError: the file cannot be written.
        """
        with self._lent.blocks_of_epoch(query, request, request.snapshot) as blocks:
            written = self._written(request, self._seen(blocks))
        with self._state.lock:
            self._state.counters["checkpoints"] += 1
        return written

    def snapshot(self, query: bytes, request: Snapshot) -> dict[str, Any]:
        """Writes all committed blocks to a file, at the pace that is asked for; the answer says as of which epoch.

        Raises:
            InvalidRequestError: nothing has been committed in this run.
            FencedError: the run is over, or a later one holds the query; what was written is not a whole file.
            CheckpointError: the file cannot be written.
        """
        with self._beside_epochs(query, request) as paced, self._lent.committed(query, request) as (epoch, blocks):
            written = self._written(request, self._seen(blocks), paced)
        with self._state.lock:
            self._state.counters["snapshots"] += 1
        return {"epoch": epoch, **written}

    def fold_files(self, query: bytes, request: FoldFiles) -> dict[str, Any]:
        """Writes a file that stands for others, of whose blocks nobody needs to be told any more when they were made.

        Raises:
            InvalidRequestError: the run has asked for this file before, or no pane of the others is alive.
            FencedError: the run is over, or a later one holds the query; what was written is not a whole file.
            CheckpointError, CorruptBlockError: a file cannot be read or written, or is not what its manifest says.
            SpillError: no room on the local disk to fold them in.
        """
        with self._beside_epochs(query, request) as paced:
            with self._state.lock:
                self._state.state_for(query, request.plan, request.run).claim(request.run, request.name)
            directory = BlockDirectory(request.directory)
            stored = [block for file in request.files for block in _stored(directory, *file)]
            with scratch_arena(self._state, sum(Head(block.head).length for block in stored)) as (arena, fd):
                heads = [adopt(arena, fd, query, BEYOND_EPOCHS, block) for block in stored]
                offsets = [Head(head).arena_offset for head in heads]
                block = compacted(Plan(request.plan), arena, offsets, request.first_live_pane, query)
                if block is None:
                    raise InvalidRequestError("no pane of these files is alive")
                with arena.view(block.offset, block.length) as view:
                    written = self._written(request, [(block, view)], paced)
        with self._state.lock:
            self._state.counters["folds of files"] += 1
        return written

    @contextmanager
    def _beside_epochs(
        self, query: bytes, request: Snapshot | FoldFiles
    ) -> Iterator[Callable[[WrittenFile], PacedFile]]:
        """What gives a file its pace, and ends it with its run; that can be waited for."""

        def check() -> None:
            with self._state.lock:
                self._state.state_for(query, request.plan, request.run).check_snapshots(request.run)

        run = query, request.run
        with self._fewer:
            self._under_way.append(run)
        try:
            yield lambda file: PacedFile(file, request.bytes_per_second, check)
        finally:
            with self._fewer:
                self._under_way.remove(run)
                self._fewer.notify_all()

    def end_snapshots(self, query: bytes, request: EndSnapshots) -> dict[str, Any]:
        """Returns once no snapshot of this run, which is over, is being written, nor will be.

        Raises:
            AgentBusyError: the disk does not take what is under way.
        """
        with self._state.lock:
            state = self._state.queries.get(query)
            if state is not None:
                state.ended = max(state.ended, request.run)
        run = query, request.run
        with self._fewer:
            if not self._fewer.wait_for(lambda: run not in self._under_way, _LAST_PIECE_SECONDS):
                raise AgentBusyError(f"a snapshot of run {request.run} is still being written")
        return {}

    def _seen(self, blocks: list[LiveBlock]) -> list[tuple[LiveBlock, Any]]:
        """Blocks that are lent, and their bytes."""
        return [(block, self._lent.view(block, 0, block.length)) for block in blocks]

    @staticmethod
    def _written(
        request: Checkpoint | Snapshot | FoldFiles,
        blocks: list[tuple[LiveBlock, Any]],
        by: Callable[[WrittenFile], WrittenFile | PacedFile] = lambda file: file,
    ) -> dict[str, int]:
        """The file of these blocks, which `by` says how to write: its bytes, their CRC32C, the last pane."""
        views = [view for _, view in blocks]
        directory = BlockDirectory(request.directory)
        # Where a snapshot finds no directory, the checkpoint was deleted: it must not come back.
        size, crc = directory.write(
            request.name, lambda file: write(request.plan, views, by(file)), makes=isinstance(request, Checkpoint)
        )
        panes = [pane for block, _ in blocks for pane, _, _ in block.panes]
        return {"bytes": size, "crc": crc, "last_pane": max(panes, default=BEFORE_ALL_PANES)}

    def restore(self, query: bytes, request: Restore) -> dict[str, Any]:
        """Restores the blocks of files, each file once. The answer says what is live.

        Raises:
            CheckpointError, CorruptBlockError: a file is missing, or not what its manifest says.
            InvalidRequestError: another file of that name was restored in this run.
            FencedError: a later run has begun meanwhile, and nothing of this one is here.
            ArenaFullError: no room for a block. Those before it are restored, and may be spilled; the same call again
                continues behind them.
        """
        directory = BlockDirectory(request.directory)
        with self._state.lock:
            state = self._state.state_for(query, request.plan, request.run)
            self._state.queries[query] = state
            state.restored_by = request.run
            done = dict(state.restored)
        for name, size, crc in request.files:
            if done.get(name, (size, crc)) != (size, crc):
                raise InvalidRequestError(f"another file {name} than this one of {size} bytes was restored before")
            if name in done:
                continue
            stored: list[StoredBlock] = []  # not two files at once
            stored = _stored(directory, name, size, crc)
            while (at := self._next(query, state, name, len(stored))) < len(stored):
                self._take_over(query, state, name, at, stored[at])
            with self._state.lock:
                self._check_not_replaced(query, state)
                state.restoring.pop(name, None)
                state.restored[name] = (size, crc)
        with self._state.lock:
            self._check_not_replaced(query, state)
            self._state.counters["restores"] += 1
            return self._state.reply(state, 0)

    def take(self, query: bytes, request: Take) -> dict[str, Any]:
        """Publishes the blocks of files as blocks of an epoch whose update is under way; what discards that epoch
        discards them. The answer has their heads (Base64).

        Raises:
            CheckpointError, CorruptBlockError: a file is missing, or not what was written.
            FencedError: a later run holds the query.
            ArenaFullError: no room. What was published before is of the epoch all the same.
        """
        directory, heads = BlockDirectory(request.directory), []
        for name, size, crc in request.files:
            stored = _stored(directory, name, size, crc)
            with self._state.lock:
                self._state.state_for(query, request.plan, request.run)
            heads += [
                adopt(self._state.arena, self._state.fd, query, request.epoch, block, request.epoch) for block in stored
            ]
        return {"heads": [base64.b64encode(head).decode() for head in heads]}

    def _check_not_replaced(self, query: bytes, state: QueryState) -> None:
        if self._state.queries.get(query) is not state:
            raise FencedError(f"run {state.run} of the query was replaced while it restored its files")

    def _next(self, query: bytes, state: QueryState, name: str, blocks: int) -> int:
        """Which of a file's blocks is to be restored next; `blocks`: none is left."""
        with self._state.lock:
            self._check_not_replaced(query, state)
            return blocks if name in state.restored else state.restoring.get(name, 0)

    def _take_over(self, query: bytes, state: QueryState, name: str, at: int, block: StoredBlock) -> None:
        """Restores a block, for whose bytes nobody waits. Not where this call has, or a later run holds the query."""
        # Beyond all epochs, as a compaction's result is: no commit may drop it.
        taken = LiveBlock.of(adopt(self._state.arena, self._state.fd, query, BEYOND_EPOCHS, block))
        with self._state.lock:
            is_wanted = self._state.queries.get(query) is state and name not in state.restored
            if not is_wanted or state.restoring.get(name, 0) != at:
                self._state.arena.free(taken.offset)
                return
            self._state.holding.commit(query, [taken.offset])
            state.own.add([taken])
            state.restoring[name] = at + 1


def _stored(directory: BlockDirectory, name: str, size: int, crc: int) -> list[StoredBlock]:
    """The blocks of a file that are not empty.

    Raises:
        CheckpointError, CorruptBlockError: it is missing, or not what its manifest says.
    """
    blocks = decode(directory.read(BlockFile(name, size, crc, 0, "", False)), name)
    return [block for block in blocks if block.segments]
