"""What an agent can be asked, and what it answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from pyslash import errors
from pyslash.protocol.bounds import MAX_RANGES_BYTES
from pyslash.protocol.caller import AgentCaller, result
from pyslash.protocol.messages import (
    Begin,
    Checkpoint,
    Commit,
    Discard,
    Empty,
    EndSnapshots,
    Fold,
    FoldFiles,
    Live,
    Logs,
    MakeRoom,
    Promote,
    Read,
    Release,
    Replicate,
    Restore,
    Resume,
    Snapshot,
    Take,
    Write,
)
from pyslash.protocol.version_edit import VersionEdit
from pyslash.protocol.wire import CHUNK_BYTES, Kind, Places
from pyslash.units import BEFORE_ALL_PANES, BEFORE_ALL_RUNS, ArenaOffset, Epoch, Run

# However long their numbers are, so many ranges fit into a request to read.
_RANGES_A_READ = MAX_RANGES_BYTES // 80


class Wanted(NamedTuple):
    """Ranges (offset in the block, length) of the block at `offset` of an agent's arena, and memory for each."""

    offset: ArenaOffset
    ranges: Sequence[tuple[int, int]]
    into: Sequence[memoryview]


@dataclass(frozen=True)
class LiveReply:
    """Which blocks of a query are live in an agent, as far as its driver did not know, and how full its arena is."""

    edit: VersionEdit
    used_bytes: int
    arena_bytes: int
    spilled_bytes: int = 0
    freed: int = 0

    @property
    def blocks(self) -> list[bytes]:
        """The heads of the blocks that have come, in the order of their offsets."""
        return [head for _, head in sorted(self.edit.heads.items())]


@dataclass(frozen=True)
class Described:
    """What an agent holds of a query; `epoch` is the last committed one, -1 if none.

    `replicas`: of which agents it keeps a copy, by incarnation, and as of which epoch; `promoted`: which of them, as of
    which epoch, have become its own; panes before `first_live_pane` have been released. `settled`: of the replicas,
    those of which no commit is outstanding: (epoch, agents whose shares its source had taken over as of that epoch).
    `restored_by`: the run that had it read its share from files.
    """

    incarnation: bytes
    epoch: Epoch
    run: Run
    replicas: dict[str, Epoch]
    promoted: dict[str, Epoch]
    blocks: int
    used_bytes: int
    arena_bytes: int
    spilled_bytes: int = 0
    first_live_pane: int = BEFORE_ALL_PANES
    settled: dict[str, tuple[Epoch, frozenset[str]]] = field(default_factory=dict)
    restored_by: Run = BEFORE_ALL_RUNS


class AgentClient(AgentCaller):
    """One agent as seen by one query: every call that it answers."""

    def commit(
        self,
        epoch: Epoch,
        offsets: list[ArenaOffset],
        plan: str,
        run: Run = BEFORE_ALL_RUNS,
        heads: list[int] | None = None,
        replicas: list[list[Any]] | None = None,
        keeps_changes: bool = False,
        known: int = 0,
    ) -> LiveReply:
        """Commits the epoch's blocks (offsets in the arena). It may be repeated with the same arguments."""
        request = Commit(epoch, offsets, plan, run, heads or [], replicas or [], keeps_changes, known)
        return self._all_live(self.act("commit", request), run)

    def live(self, run: Run = BEFORE_ALL_RUNS, known: int = 0) -> LiveReply:
        """What is live, and was not told in the edit `known` or before."""
        return self._all_live(self.act("live", Live(known, run)), run)

    def checkpoint(self, request: Checkpoint, timeout_seconds: float) -> dict[str, int]:
        """Writes a block file, durably: its `bytes`, `crc` and `last_pane` (microseconds)."""
        return self.act("checkpoint", request, timeout_seconds)

    def snapshot(self, request: Snapshot, timeout_seconds: float) -> dict[str, int]:
        """Writes all committed blocks to a file, durably: `bytes`, `crc`, `last_pane`, and the last `epoch` in it."""
        return self.act("snapshot", request, timeout_seconds)

    def fold_files(self, request: FoldFiles, timeout_seconds: float) -> dict[str, int]:
        """Folds files into one, durably: its `bytes`, `crc` and `last_pane`."""
        return self.act("fold_files", request, timeout_seconds)

    def end_snapshots(self, run: Run) -> None:
        """Has the agent give up snapshots of a run that is over: none is being written when this returns."""
        self.act("end_snapshots", EndSnapshots(run))

    def restore(self, request: Restore, timeout_seconds: float) -> LiveReply:
        """Restores the blocks of these files, each once."""
        return self._all_live(self.act("restore", request, timeout_seconds), request.run)

    def fold(self, request: Fold, timeout_seconds: float) -> list[bytes]:
        """Folds blocks of an epoch under way. Returns the heads of what they are now; none: they are as they were."""
        return self._heads(self.act("fold", request, timeout_seconds))

    def take(self, request: Take, timeout_seconds: float) -> list[bytes]:
        """Publishes the blocks of these files as blocks of an epoch under way. Returns their heads."""
        return self._heads(self.act("take", request, timeout_seconds))

    def replicate(self, request: Replicate, timeout_seconds: float) -> int:
        """Has the agent write blocks into a standby's arena. Returns the number of bytes."""
        return int(self.act("replicate", request, timeout_seconds)["bytes"])

    def promote(self, request: Promote) -> None:
        """Has a standby promote the replica of a lost agent."""
        self.act("promote", request)

    def begin(self, request: Begin) -> None:
        """Lets go of what earlier runs have committed."""
        self.act("begin", request)

    def resume(self, request: Resume) -> None:
        """Keeps what the agent holds, under a later run."""
        self.act("resume", request)

    def make_room(self, request: MakeRoom, timeout_seconds: float) -> int:
        """Has the agent make room in its arena. Returns the bytes that it then has on disk."""
        return int(self.act("room", request, timeout_seconds)["spilled_bytes"])

    def release(self, before_pane: int, run: Run = BEFORE_ALL_RUNS) -> int:
        """Frees panes that start before this (microseconds). Returns how many blocks were freed at once."""
        return int(self.act("release", Release(before_pane, run))["freed"])

    def discard(self, epoch: Epoch, run: Run = BEFORE_ALL_RUNS) -> int:
        """Discards what an update of this epoch has written, before its commit. Returns how many were freed at once."""
        return int(self.act("discard", Discard(epoch, run))["freed"])

    def drop(self) -> int:
        """Frees all of the query, for good; how many blocks."""
        return int(self.act("drop", Empty())["freed"])

    def describe(self, timeout_seconds: float | None = None) -> Described:
        """What the agent holds of the query."""
        answer = self.act("describe", Empty(), timeout_seconds)
        settled = {source: (at, frozenset(taken)) for source, (at, taken) in answer["settled"].items()}
        incarnation = bytes.fromhex(answer["incarnation"])
        return Described(**{**answer, "incarnation": incarnation, "settled": settled})

    @staticmethod
    def _heads(answer: dict[str, Any]) -> list[bytes]:
        return [base64.b64decode(head) for head in answer["heads"]]

    def _all_live(self, answer: dict[str, Any], run: Run) -> LiveReply:
        """What an agent tells in one answer or several."""
        edit, freed = VersionEdit.from_record(answer), answer.get("freed", 0)
        while edit.more:
            answer = self.act("live", Live(edit.number, run))
            edit = edit.then(VersionEdit.from_record(answer))
        room = {name: answer[name] for name in ("used_bytes", "arena_bytes", "spilled_bytes")}
        return LiveReply(edit, **room, freed=freed)

    def stats(self) -> dict[str, Any]:
        """Counters, bytes by query, resident bytes and open descriptors of the agent."""
        return self.act("stats", Empty())

    def logs(self, last_bytes: int = 65536) -> str:
        """The end of the agent's log."""
        return str(self.act("logs", Logs(last_bytes))["text"])

    def read(self, offset: ArenaOffset, ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        """Ranges (offset in the block, length) of a committed block or one of rows, each in 64-byte aligned memory."""
        buffers = [pa.allocate_buffer(length) for _, length in ranges]
        self.read_into([Wanted(offset, ranges, [memoryview(buffer).cast("B") for buffer in buffers])])
        return buffers

    def read_into(self, blocks: Sequence[Wanted]) -> int:
        """Ranges of several blocks, straight into their places: one request and one stream, unless they are very many.

        Returns how many requests it took.
        """
        requests = _requests(blocks)
        for request in requests:
            self._read(request)
        return len(requests)

    def _read(self, blocks: list[Wanted]) -> None:
        asked = [[offset, [list(one) for one in ranges]] for offset, ranges, _ in blocks]
        pieces = [piece for _, _, into in blocks for piece in into]
        ticket = Read(asked, self.descriptor.incarnation)
        what = f"of {sum(piece.nbytes for piece in pieces)} bytes"
        with self.called("read", ticket, None, what) as (channel, until):
            places = Places(pieces)
            while not places.are_full and channel.receive_data(places, until):
                pass
            # Only with its answer has the agent let go of the blocks.
            result(channel, until)
            if not places.are_full:
                raise errors.AgentError(f"{self.descriptor}: a read got a shorter stream than it requested")

    def write(self, offset: ArenaOffset, data: Any) -> None:
        """Writes `data` (buffer protocol) into room that the agent has reserved, at `offset` in its arena."""
        source = memoryview(data).cast("B")
        ticket = Write(offset, source.nbytes, self.descriptor.incarnation)
        with self.called("write", ticket, None, f"of {source.nbytes} bytes") as (channel, until):
            result(channel, until)
            for at in range(0, source.nbytes, CHUNK_BYTES):
                channel.send(Kind.DATA, source[at : at + CHUNK_BYTES], until)
            channel.send(Kind.DONE, b"", until)
            # Only the end of the answer says that the agent has taken all of it.
            result(channel, until)

    @contextmanager
    def writable(self, offset: ArenaOffset, length: int) -> Iterator[None]:
        """Lets this process itself write into room that the agent has reserved, until the end of the block.

        Should this process die or fail, its connection ends, and only with that does the room go to anybody else.
        """
        ticket = Write(offset, length, self.descriptor.incarnation)
        with self.called("lend", ticket, None, f"of {length} bytes") as (channel, until):
            result(channel, until)
            yield
            channel.send(Kind.DONE, b"", until)
            result(channel, until)


def _requests(blocks: Sequence[Wanted]) -> list[list[Wanted]]:
    """The same, in requests of no more ranges than fit into one; a block counts as a range."""
    requests: list[list[Wanted]] = [[]]
    left = _RANGES_A_READ
    for offset, ranges, into in blocks:
        at = 0
        while at < len(ranges):
            if left < 2:
                requests.append([])
                left = _RANGES_A_READ
            end = at + left - 1
            requests[-1].append(Wanted(offset, ranges[at:end], into[at:end]))
            left -= 1 + len(requests[-1][-1].ranges)
            at = end
    return requests
