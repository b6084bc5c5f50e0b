"""The coordinator of one query: it tells agents what the state of the query consists of, from epoch to epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pyslash._native import Head
from pyslash.cluster.agent_group import AgentGroup, name_of
from pyslash.cluster.replicas import Replicas
from pyslash.cluster.reported import ReportedBlocks
from pyslash.cluster.room import MOST_SPILLS, Room
from pyslash.cluster.standbys import Repair, plan_repair
from pyslash.errors import SlashError, StateLostError
from pyslash.protocol.client import AgentClient, LiveReply
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Begin, Checkpoint, Promote, Restore, Resume, Take
from pyslash.protocol.token import Right, query_token
from pyslash.state.durable import DurableState, shares
from pyslash.state.files.directory import BlockFile
from pyslash.state.manifest import Manifest
from pyslash.state.receipt import Receipt
from pyslash.state.version import StateVersion
from pyslash.units import BEFORE_ALL_RUNS, NO_EPOCH, Epoch, Run

logger = logging.getLogger("pyslash")

# By query, the agents that were told to drop it or to commit an epoch: what they find of it, up to that epoch, is late,
# and swept, until a run tells otherwise.
_told: dict[bytes, dict[str, AgentDescriptor]] = {}


def told_of(query_id: bytes) -> list[AgentDescriptor]:
    """The agents that runs of a query in this process have told to drop it, or to commit an epoch of it."""
    return list(_told.get(query_id, {}).values())


class Coordinator:
    """Tells agents what an epoch consists of.

    `version` is what is live, as they tell it; `replicas` keeps copies, `room` has them spill.

    `group` are all agents that hold state of the query.
    """

    def __init__(
        self,
        group: AgentGroup,
        query_id: bytes,
        plan: str,
        secret: bytes,
        run: Run = BEFORE_ALL_RUNS,
        checkpoint_timeout_seconds: float = 120,
        spill: tuple[str, int] = ("", 0),
        keeps_changes: bool = False,
    ) -> None:
        """`spill`: as `Room` takes it.

        `keeps_changes`: agents keep the blocks of an epoch apart from others until the next one.
        """
        self.query_id = query_id
        self.read_token = query_token(secret, query_id, Right.READ)
        self.group = group
        self.version = StateVersion()
        self.room = Room(self.group, self.version, run, spill, checkpoint_timeout_seconds)
        self.replicas = Replicas(self.group, self.version, self.room, plan, run, checkpoint_timeout_seconds)
        self._plan = plan
        self._run = run
        self._checkpoint_timeout = checkpoint_timeout_seconds
        self._keeps_changes = keeps_changes
        self._restored_epoch = self._repaired_epoch = NO_EPOCH
        self._replaced: set[str] = set()
        self._released: int | None = None

    @property
    def agents(self) -> list[AgentDescriptor]:
        """Every agent that holds state of the query."""
        return self.group.agents

    def repair(
        self,
        newest: Manifest,
        before: Manifest | None,
        first_pane: int,
        run_before: Run,
        others: list[AgentDescriptor],
    ) -> Repair | str:
        """Find the state as of a manifest in agents' memory, and promote standbys of lost agents; or return why not.

        Panes before `first_pane` are no longer needed, and of runs after `run_before` the checkpoint knew nothing when
        this one began. Of agents that the manifest does not name, `others` may have
        replicas. Without a repair, nothing has changed anywhere.

        Raises:
            StateLostError: an agent was lost meanwhile.
        """
        group = self.group
        group.add_agents([*newest.agents, *others])
        repair = plan_repair(newest, before, first_pane, run_before, group.describe())
        if isinstance(repair, str):
            group.close()
            return repair
        group.keep(repair.holders)
        self._replaced |= {agent.incarnation for agent in newest.agents} - set(repair.holders)
        reported = ReportedBlocks(newest.blocks)

        def resume(client: AgentClient) -> None:
            client.resume(Resume(newest.epoch, self._plan, self._run, first_pane))
            for source, standby in repair.promotions.items():
                if standby == name_of(client):
                    lost = reported.pairs(source)
                    client.promote(Promote(newest.epoch, source, lost, self._plan, self._run))

        group.each(resume)
        self._repaired_epoch, self.replicas.standbys = newest.epoch, repair.in_sync
        self.commit(newest)
        return repair

    def begin(self, agents: list[AgentDescriptor]) -> None:
        """Have those of these agents that answer let go of what earlier runs have committed: nothing of it counts."""
        answering, _ = self.group.probe(agents)
        self.group.add_agents(answering)
        self.group.each(lambda client: client.begin(Begin(self._plan, self._run)))

    def restore(self, epoch: Epoch, state: DurableState, agents: list[AgentDescriptor]) -> None:
        """Have these agents restore the files of the state as of `epoch`, a share each.

        Raises:
            CheckpointError, CorruptBlockError: a file is missing, or is not what its manifest says.
            SpillError: the agents have too little room, and cannot spill.
            StateLostError: there is no agent, or one is gone already.
        """
        self._restored_epoch = epoch
        if not state.files:
            return
        if not agents:
            raise StateLostError("there is no executor to restore the query's state to; start one")
        self.group.add_agents(agents)
        given = shares(state.files, self.group.names)

        def read(client: AgentClient) -> LiveReply:
            files = [[file.name, file.bytes, file.crc] for file in given[name_of(client)]]
            request = Restore(self._plan, self._run, state.directory.location, files)
            return client.restore(request, self._checkpoint_timeout)

        # Each time what has been restored is spilled, and more has room: a share may be many times an arena.
        shares_bytes = [sum(file.bytes for file in files) for files in given.values()]
        fills = 2 * max(shares_bytes) // min(agent.arena_bytes for agent in self.group.agents)
        replies = self.room.make_for(Epoch(epoch + 1), lambda: self.group.each(read), most=MOST_SPILLS + fills)
        for name, reply in replies.items():
            self.version.apply(self.group.agent(name), reply.edit)
        state.assign({file.name: holder for holder, files in given.items() for file in files})

    def take(self, epoch: Epoch, location: str, files: list[BlockFile]) -> list[Receipt]:
        """Have the agents publish the blocks of files in the folder `location`, a share each, as blocks of the epoch.

        Raises:
            CheckpointError, CorruptBlockError: a file is missing, or is not what was written.
            ArenaFullError: an agent has too little room.
            StateLostError: one is gone.
        """
        given = shares(files, self.group.names)

        def take(client: AgentClient) -> list[bytes]:
            heads: list[bytes] = []
            for file in given[name_of(client)]:  # one by one: an answer has room for the heads of a file
                request = Take(epoch, self._plan, self._run, location, [[file.name, file.bytes, file.crc]])
                heads += client.take(request, self._checkpoint_timeout)
            return heads

        taken = self.group.each(take)
        return [Receipt(self.group.agent(name), Head(raw), raw) for name, heads in taken.items() for raw in heads]

    def store(self, epoch: Epoch, receipts: list[Receipt], state: DurableState) -> list[BlockFile]:
        """Have every agent write its blocks of the epoch to the checkpoint, all at the same time. Returns the files.

        Raises:
            CheckpointError: a file cannot be written.
            StateLostError: an agent that has written blocks is gone.
        """
        self.group.add_agents([receipt.agent for receipt in receipts])
        reported, whole = ReportedBlocks.by(receipts), {*state.need_snapshots()}

        def write(client: AgentClient) -> BlockFile | None:
            holder = name_of(client)
            if holder not in reported:
                return None
            name, snapshot = f"{epoch}-{self._run}-{holder}.arrow", holder in whole
            blocks = reported.of(holder)
            offsets, heads = list(blocks), list(blocks.values())
            request = Checkpoint(epoch, offsets, self._plan, self._run, state.directory.location, name, snapshot, heads)
            written = client.checkpoint(request, self._checkpoint_timeout)
            return BlockFile(name, **written, holder=holder, snapshot=snapshot)

        return [file for file in self.group.each(write).values() if file is not None]

    def commit(self, manifest: Manifest) -> None:
        """Make the epoch's blocks, and no others, part of the state. Idempotent.

        Raises:
            StateLostError: an agent that holds state of the query is gone.
        """
        reported = ReportedBlocks()
        # Whose share a standby has taken over may live yet, and must not bring the same blocks in again. It keeps what
        # it holds as of then: if that standby is lost before the next manifest, it has the share.
        gone = self._replaced if manifest.epoch <= self._repaired_epoch else set()
        if manifest.epoch > self._restored_epoch:
            self.group.add_agents([agent for agent in manifest.agents if agent.incarnation not in gone])
            reported = ReportedBlocks(manifest.blocks, but=gone)

        def commit(client: AgentClient) -> LiveReply | None:
            name = name_of(client)
            if name in gone:
                return None
            blocks = reported.of(name)
            replicas = [[source, reported.pairs(source)] for source in self.replicas.sources(name)]
            heads, known = list(blocks.values()), self.version.known(name)
            return client.commit(
                manifest.epoch, list(blocks), self._plan, self._run, heads, replicas, self._keeps_changes, known
            )

        self._remember_who_is_told()
        replies = {name: reply for name, reply in self.group.each(commit).items() if reply is not None}
        edits = {self.group.agent(name): reply.edit for name, reply in replies.items()}
        self.version.commit(manifest.epoch, manifest.version, edits)
        self.room.committed(replies)

    def release(self, before_pane: int) -> None:
        """Free panes below `before_pane`."""
        if before_pane != self._released:
            self.group.each(lambda client: client.release(before_pane, self._run))
            self._released = before_pane

    def discard(self, epoch: Epoch, others: Callable[[], Collection[AgentDescriptor]]) -> None:
        """Free what tasks have published of an epoch whose update has failed: its rows will be read again.

        `others` finds agents that hold nothing of the query, as far as is known: a failed job has no receipts to tell.
        """
        with self._staying(epoch):
            self.group.each(lambda client: client.discard(epoch, self._run))
        with self._staying(epoch), closing(self.group.beside(others())) as unknown:
            unknown.each(lambda client: client.discard(epoch, self._run))

    @contextmanager
    def _staying(self, epoch: Epoch) -> Iterator[None]:
        """Where an agent cannot be told: there is another error to be raised."""
        try:
            yield
        except (SlashError, PySparkException, Py4JError) as error:
            logger.warning("epoch %d failed, and its blocks stay in the arenas until the next commit: %s", epoch, error)

    def drop(self) -> None:
        """Free everything of the query."""
        self._remember_who_is_told()
        self.group.each(lambda client: client.drop())

    def _remember_who_is_told(self) -> None:
        _told.setdefault(self.query_id, {}).update((agent.incarnation, agent) for agent in self.agents)
