"""What an agent knows of one query: its own share of the state, and the replicas that it keeps for other agents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pyslash._native import Plan
from pyslash.agent.store.block_set import BlockSet, LiveBlock
from pyslash.agent.store.own_blocks import OwnBlocks
from pyslash.errors import FencedError, InvalidRequestError
from pyslash.units import BEFORE_ALL_PANES, BEFORE_ALL_RUNS, NO_EPOCH, NO_RUN, ArenaOffset, Epoch, Run

_MOST_CLAIMED = 256  # a call that arrives twice does so soon


@dataclass
class Replica(BlockSet):
    """A copy of another agent's blocks as of an epoch. It is not read before its promotion.

    `taken_over`: other agents whose shares that agent had taken over as of the same epoch: they are part of the copy.
    """

    epoch: Epoch = NO_EPOCH
    taken_over: frozenset[str] = frozenset()


@dataclass
class PendingReplica:
    """Blocks of an epoch that become part of a replica: reserved, then written by their agent, then sealed.

    `places` maps a block's offset in its own arena to (offset, bytes) here, `heads` to the CRC of its head there.
    `whole`: they are all that there is, and replace what the replica holds. `settled`: once sealed, without a commit,
    for their agent has committed the epoch; `taken_over`: as of a replica.
    """

    epoch: Epoch
    whole: bool
    places: dict[ArenaOffset, tuple[ArenaOffset, int]]
    heads: dict[ArenaOffset, int]
    settled: bool = False
    taken_over: frozenset[str] = frozenset()
    sealed: list[LiveBlock] | None = None


@dataclass
class QueryState:
    """One query's part of the arena. Agents are named by their incarnations (hex digits)."""

    plan: Plan
    plan_text: str
    run: Run = BEFORE_ALL_RUNS  # that this state belongs to: a later one restores everything itself, or resumes it
    ended: Run = NO_RUN  # the last run that is over: no snapshot of it is written any more
    epoch: Epoch = NO_EPOCH
    stored: Epoch = NO_EPOCH  # the last epoch whose checkpoint or replica was requested: its update is over
    # Of the last commit, to recognise it when it is repeated: offsets of blocks, and the CRCs of their heads, if given.
    blocks: frozenset[tuple[ArenaOffset, int | None]] = frozenset()
    freed: int = 0  # by the last commit
    keeps_changes: bool = True  # what the newest epoch has added is not folded; a commit says whether that is needed
    first_live_pane: int = BEFORE_ALL_PANES
    own: OwnBlocks = field(default_factory=OwnBlocks)
    claimed: dict[str, None] = field(default_factory=dict)  # the last files that this run has had written beside epochs
    restored: dict[str, tuple[int, int]] = field(default_factory=dict)  # files whose blocks are live: bytes and CRC
    restoring: dict[str, int] = field(default_factory=dict)  # how many blocks of other files are
    restored_by: Run = BEFORE_ALL_RUNS  # the run that has cut the files into shares, of which it has one
    replicas: dict[str, Replica] = field(default_factory=dict)
    incoming: dict[str, PendingReplica] = field(default_factory=dict)
    promoted: dict[str, Epoch] = field(default_factory=dict)  # replicas that became this agent's own, as of which epoch

    def check_run(self, run: Run) -> None:
        """Passes for the run that this state belongs to, and for later ones.

        Raises:
            FencedError: an earlier run asks.
        """
        if run < self.run:
            raise FencedError(f"run {run} of the query was replaced by run {self.run}; stop this one")

    def claim(self, run: Run, name: str) -> None:
        """A file is written beside epochs: a snapshot, or what files were folded into.

        Raises:
            FencedError: the run is over.
            InvalidRequestError: the run has asked for this file before: a call that arrives twice would put other bytes
                in the place of what a manifest names.
        """
        self.check_snapshots(run)
        if name in self.claimed:
            raise InvalidRequestError(f"the file {name} was asked for before")
        self.claimed[name] = None
        if len(self.claimed) > _MOST_CLAIMED:
            del self.claimed[next(iter(self.claimed))]

    def check_snapshots(self, run: Run) -> None:
        """Passes while a snapshot of this run, which the state belongs to, is worth anything.

        Raises:
            FencedError: the run is over.
        """
        if run <= self.ended:
            raise FencedError(f"run {run} of the query is over: no snapshot of it is wanted any more")

    def block_sets(self) -> Iterator[BlockSet]:
        """The own one first."""
        yield self.own
        yield from self.replicas.values()

    def replica_epochs(self) -> dict[str, Epoch]:
        """For each source, the latest epoch that its replica here has."""
        epochs = {source: replica.epoch for source, replica in self.replicas.items()}
        epochs.update({source: one.epoch for source, one in self.incoming.items() if one.sealed is not None})
        return epochs

    def settled_replicas(self) -> dict[str, tuple[Epoch, list[str]]]:
        """For each source, of the replica without blocks on their way: its epoch, and the shares taken over in it."""
        return {source: (replica.epoch, sorted(replica.taken_over)) for source, replica in self.replicas.items()}
