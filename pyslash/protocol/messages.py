"""The control plane's messages: requests to an agent and replies, each field with its bounds. `codec` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as field_of
from typing import Annotated

from pyslash.protocol.bounds import (
    Blocks,
    Epoch,
    FileName,
    Files,
    Flag,
    Gid,
    Heads,
    Incarnation,
    Incarnations,
    Landings,
    Offset,
    Offsets,
    OptionalPath,
    Path,
    PlanText,
    QueuePair,
    Reads,
    Replicas,
    Rooms,
    Run,
    Signed,
    Size,
    Unsigned,
    Word,
    integer,
    text,
)
from pyslash.rdma.endpoint import Endpoint
from pyslash.units import BEFORE_ALL_RUNS


@dataclass(frozen=True)
class Commit:
    """These blocks, and no other uncommitted ones up to this epoch, are the query's.

    `run` numbers the query's recoveries: what an agent holds of an earlier run is void, and an earlier run is refused.
    `heads` are the CRCs of the blocks' heads, in the order of `offsets`, as their tasks have reported them: a place may
    have been freed and taken by another block since. Without them nothing is compared.
    `replicas`, [agent, its blocks of the epoch] each, are the ones that this agent keeps. A block is [offset in its own
    arena, CRC of its head there]. `keeps_changes`: until another epoch is committed, its blocks stay apart from others.
    `known`: as of `Live`.
    """

    epoch: Epoch
    offsets: Offsets
    plan: PlanText
    run: Run = BEFORE_ALL_RUNS
    heads: Heads = field_of(default_factory=list)
    replicas: Replicas = field_of(default_factory=list)
    keeps_changes: Flag = False
    known: Unsigned = 0


@dataclass(frozen=True)
class Fold:
    """Fold these published blocks of an epoch, as its tasks have reported them, into one for each of the agent's cores.

    `heads` as of a `Commit`.
    """

    epoch: Epoch
    offsets: Offsets
    plan: PlanText
    run: Run
    heads: Heads


@dataclass(frozen=True)
class Live:
    """Tell what is live and was not told in the edit of this number or before (0: nothing was)."""

    known: Unsigned = 0
    run: Run = BEFORE_ALL_RUNS


@dataclass(frozen=True)
class Checkpoint:
    """Write these published blocks of the epoch to `directory`/`name`; a snapshot also holds all committed ones.

    `heads` as of a `Commit`.
    """

    epoch: Epoch
    offsets: Offsets
    plan: PlanText
    run: Run
    directory: Path
    name: FileName
    snapshot: Flag
    heads: Heads = field_of(default_factory=list)


@dataclass(frozen=True)
class Snapshot:
    """Write all committed blocks to `directory`/`name`, while epochs go on, at no more than so many bytes a second."""

    plan: PlanText
    run: Run
    directory: Path
    name: FileName
    bytes_per_second: Size


@dataclass(frozen=True)
class FoldFiles:
    """Fold the blocks of these files ([name, bytes, CRC32C] each) into one in `directory`/`name`, without the panes
    before the first live one, at the pace of a `Snapshot`.
    """

    plan: PlanText
    run: Run
    directory: Path
    files: Files
    name: FileName
    first_live_pane: Signed
    bytes_per_second: Size


@dataclass(frozen=True)
class EndSnapshots:
    """The run is over: write no snapshot of it any more, and fold no files. The answer comes when none is written."""

    run: Run


@dataclass(frozen=True)
class Restore:
    """Restore the blocks of these files: [name, bytes, CRC32C] each."""

    plan: PlanText
    run: Run
    directory: Path
    files: Files


@dataclass(frozen=True)
class Take:
    """Publish the blocks of these files, another query's of the same plan, as if tasks of the epoch had made them."""

    epoch: Epoch
    plan: PlanText
    run: Run
    directory: Path
    files: Files


@dataclass(frozen=True)
class Replicate:
    """Write these published blocks of the epoch to a standby, an agent's descriptor (JSON), by this transport.

    `whole`: and all committed ones, for a standby that has none of them. `heads`: as in a commit. `settled`: the epoch
    is committed already, and the standby has its replica as soon as it is written. `timeout_seconds` bounds each call
    of the standby, and each block.
    """

    epoch: Epoch
    offsets: Offsets
    plan: PlanText
    run: Run
    standby: Path
    transport: Annotated[str, text(16)]
    whole: Flag
    heads: Heads = field_of(default_factory=list)
    settled: Flag = False
    timeout_seconds: Annotated[int, integer(1, 1 << 20)] = 30


@dataclass(frozen=True)
class Reserve:
    """Make room for blocks, [offset in its own arena, bytes, CRC of its head there] each, of the agent `source`.

    `settled`: they are its whole share as of an epoch that it has committed, with what it has taken over as of that
    epoch: the shares of the agents `taken_over`.
    """

    epoch: Epoch
    source: Incarnation
    blocks: Rooms
    plan: PlanText
    run: Run
    whole: Flag
    settled: Flag = False
    taken_over: Incarnations = field_of(default_factory=list)


@dataclass(frozen=True)
class Seal:
    """The blocks of this agent that room was reserved for have been written."""

    epoch: Epoch
    source: Incarnation
    plan: PlanText
    run: Run


@dataclass(frozen=True)
class Promote:
    """The agent `source` is lost: its replica as of this epoch, in which it wrote these blocks, is yours now."""

    epoch: Epoch
    source: Incarnation
    blocks: Blocks
    plan: PlanText
    run: Run


@dataclass(frozen=True)
class MakeRoom:
    """Have `bytes` in one piece free for this epoch, which is not committed yet; spill to `directory` (empty: default).

    At most `max_bytes` of all queries may then be on disk. `empties`: spill all that can be, rather than half.
    """

    epoch: Epoch
    run: Run
    bytes: Unsigned
    directory: OptionalPath
    max_bytes: Unsigned
    empties: Flag = False


@dataclass(frozen=True)
class Resume:
    """Keep what you hold as of this epoch as part of this run, which needs the panes from `first_pane` on."""

    epoch: Epoch
    plan: PlanText
    run: Run
    first_pane: Signed


@dataclass(frozen=True)
class Begin:
    """Begin this run with nothing: what an earlier one has committed is to be computed again."""

    plan: PlanText
    run: Run


@dataclass(frozen=True)
class Discard:
    """Discard what tasks of a failed update of this uncommitted epoch have written."""

    epoch: Epoch
    run: Run = BEFORE_ALL_RUNS


@dataclass(frozen=True)
class Release:
    """Free panes that start before `before_pane` (microseconds): neither this run nor an earlier one needs them."""

    before_pane: Signed
    run: Run = BEFORE_ALL_RUNS


@dataclass(frozen=True)
class Logs:
    """The end of the agent's log."""

    last_bytes: Annotated[int, integer(1, 1 << 20)]


@dataclass(frozen=True)
class Empty:
    """A request without fields: drop, describe, stats."""


@dataclass(frozen=True)
class Read:
    """Stream ranges of blocks: [offset in the arena, [offset in the block, length] of each range] of each block."""

    blocks: Reads
    incarnation: Word


@dataclass(frozen=True)
class Gather:
    """A landing of `bytes` for blocks of other agents, which the caller maps; a read takes at most `timeout_seconds`.

    `Land` fills it, as often as its caller asks. It goes with the connection. What is read for one landing of a
    `version` of the query's state is copied to others; the empty one is nobody's.
    """

    bytes: Annotated[int, integer(1, 1 << 46)]
    timeout_seconds: Annotated[int, integer(1, 1 << 20)]
    version: Annotated[str, text(256)]


@dataclass(frozen=True)
class Land:
    """Bring ranges of blocks of other agents by this transport: [an agent's descriptor (JSON), its blocks] of each.

    A block is [offset in the agent's arena, place in the landing, [offset in the block, length] of each range]. A range
    lies as far behind the place as it does behind the beginning of its block.
    """

    transport: Annotated[str, text(16)]
    peers: Landings


@dataclass(frozen=True)
class Write:
    """Bytes for a replica: `length` of them follow, for [offset, offset + length) of the arena."""

    offset: Offset
    length: Size
    incarnation: Word


@dataclass(frozen=True)
class Connect(Endpoint):
    """A queue pair of a peer, for one of the agent's."""

    qpn: QueuePair
    psn: QueuePair
    gid: Gid
    lid: Annotated[int, integer(0, 1 << 16)]
    mtu: Annotated[int, integer(1, 6)]
    initiator_depth: Annotated[int, integer(1, 1 << 16)]
    responder_depth: Annotated[int, integer(1, 1 << 16)]


@dataclass(frozen=True)
class Renew:
    """The peer of the agent's queue pair `qpn` still lives."""

    qpn: QueuePair


@dataclass(frozen=True)
class Disconnect:
    """Close the agent's queue pair `qpn`."""

    qpn: QueuePair


@dataclass(frozen=True)
class Expose:
    """A reserved range of the arena that is to be written by RDMA."""

    offset: Offset
    length: Size


@dataclass(frozen=True)
class Conceal:
    """What was exposed at `offset` has been written."""

    offset: Offset


Request = (
    Commit
    | Checkpoint
    | Snapshot
    | FoldFiles
    | EndSnapshots
    | Restore
    | Take
    | Fold
    | Replicate
    | Reserve
    | Seal
    | Promote
    | Begin
    | Resume
    | Live
    | MakeRoom
    | Discard
    | Release
    | Logs
    | Empty
    | Read
    | Gather
    | Land
    | Write
    | Connect
    | Renew
    | Disconnect
    | Expose
    | Conceal
)
