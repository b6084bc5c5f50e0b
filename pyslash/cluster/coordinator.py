"""The coordinator of one query: which agents hold its state, which blocks are live, and the calls that change that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pyslash._native import Head
from pyslash.cluster.standbys import Repair, choose_standbys, plan_repair
from pyslash.errors import (
    AgentError,
    AgentTimeoutError,
    ArenaFullError,
    SlashError,
    SpillError,
    StaleIncarnationError,
    StateLostError,
)
from pyslash.protocol.client import AgentClient, CommitReply, Described
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Checkpoint, MakeRoom, Promote, Replicate, Restore, Resume
from pyslash.protocol.token import Right, query_token
from pyslash.state.block_head import head_crc
from pyslash.state.directory import BlockFile
from pyslash.state.durable import DurableState, shares
from pyslash.state.manifest import Manifest
from pyslash.state.receipt import Receipt

# An arena that is fuller than this part of it when an epoch begins spills before its tasks find it full.
_HIGH_WATER = 0.75
_MOST_SPILLS = 8
# An agent that says nothing for so long, where all it has to do is answer, is given up.
_PROBE_SECONDS = 5.0

Result = TypeVar("Result")
logger = logging.getLogger("pyslash")


@dataclass(frozen=True)
class LiveBlock:
    """A committed block: the agent that holds it, and its head."""

    agent: AgentDescriptor
    head: Head
    raw: bytes


class Coordinator:
    """Tells agents what an epoch consists of, and keeps their answers: the live blocks of the query."""

    def __init__(
        self,
        query_id: bytes,
        plan: str,
        secret: bytes,
        timeout_seconds: float,
        run: int = 0,
        checkpoint_timeout_seconds: float = 120,
        spill: tuple[str, int] = ("", 0),
        keeps_changes: bool = False,
    ) -> None:
        """`spill`: the directory, empty for the agent's choice, and the most bytes in it.

        `keeps_changes`: agents keep the blocks of an epoch apart from others until the next one.
        """
        self.query_id = query_id
        self.read_token = query_token(secret, query_id, Right.READ)
        self._secret, self._token = secret, query_token(secret, query_id)
        self._plan = plan
        self._timeout = timeout_seconds
        self._probe_timeout = min(timeout_seconds, _PROBE_SECONDS)
        self._run = run
        self._checkpoint_timeout = checkpoint_timeout_seconds
        self._spill = spill
        self._keeps_changes = keeps_changes
        self._full: set[str] = set()
        self._restored_epoch = -1
        self._clients: dict[str, AgentClient] = {}
        self._live: dict[str, list[LiveBlock]] = {}
        self._committed_epoch = -1  # in this run
        self._released: int | None = None
        self._standbys: dict[str, str] = {}
        self._repaired_epoch = -1
        self._replaced: set[str] = set()
        self.used_bytes = 0
        self.spilled_bytes = 0
        self.memory: dict[str, dict[str, int]] = {}  # of each agent, by host and incarnation

    @property
    def agents(self) -> list[AgentDescriptor]:
        """Every agent that holds state of the query."""
        return [client.descriptor for client in self._clients.values()]

    def live_blocks(self) -> list[LiveBlock]:
        """Blocks as of the last commit."""
        return [block for blocks in self._live.values() for block in blocks]

    def meet(self, agents: list[AgentDescriptor]) -> None:
        """Add these agents, whether they hold state yet or not."""
        for agent in agents:
            self._client(agent)

    def probe(self, agents: list[AgentDescriptor]) -> tuple[list[AgentDescriptor], bool]:
        """Those of these agents that answer, and whether another one may be alive without answering."""
        silent = False

        def ask(client: AgentClient) -> AgentDescriptor | None:
            nonlocal silent
            try:
                client.describe(self._probe_timeout)
                return client.descriptor
            except AgentTimeoutError:
                silent = True
            except (AgentError, StaleIncarnationError):
                pass
            return None

        self.meet(agents)
        answered = self._each(ask)
        self.close()
        return [agent for agent in answered.values() if agent is not None], silent

    def repair(
        self,
        newest: Manifest,
        before: Manifest | None,
        first_pane: int,
        run_before: int,
        others: list[AgentDescriptor],
    ) -> Repair | str:
        """Find the state as of a manifest in agents' memory, and promote standbys of lost agents; or return why not.

        Panes before `first_pane` are no longer needed, and of runs after `run_before` the checkpoint knew nothing when
        this one began. Of agents that the manifest does not name, `others` may have
        replicas. Without a repair, nothing has changed anywhere.

        Raises:
            StateLostError: an agent was lost meanwhile.
        """
        self.meet([*newest.agents, *others])
        repair = plan_repair(newest, before, first_pane, run_before, self._describe())
        if isinstance(repair, str):
            self.close()
            return repair
        for gone in self._clients.keys() - set(repair.holders):
            self._clients.pop(gone).close()
        self._replaced |= {agent.incarnation for agent in newest.agents} - set(repair.holders)
        reported: dict[str, dict[int, int]] = {}
        for incarnation, offset, head in newest.blocks:
            _report(reported, incarnation, offset, head)

        def resume(client: AgentClient) -> CommitReply:
            reply = client.resume(Resume(newest.epoch, self._plan, self._run, first_pane))
            for source, standby in repair.promotions.items():
                if standby == _name(client):
                    lost = _pairs(reported.get(source, {}))
                    reply = client.promote(Promote(newest.epoch, source, lost, self._plan, self._run))
            return reply

        self._each(resume)
        self._repaired_epoch, self._standbys = newest.epoch, repair.in_sync
        self.commit(newest)
        return repair

    def replicate(self, epoch: int, receipts: list[Receipt], transport: str) -> tuple[dict[str, str], int]:
        """Have every agent write its blocks of the epoch to its standby, all at once. Returns standbys and bytes.

        Raises:
            ArenaFullError: a standby has no room.
            StateLostError: an agent is gone.
        """
        reported = self._reported(receipts)
        chosen = choose_standbys(self.agents, self._standbys)

        def send(client: AgentClient) -> int:
            source = _name(client)
            standby, own = chosen.get(source), reported.get(source, {})
            whole = standby != self._standbys.get(source)
            if standby is None or not (own or whole):
                return 0
            to = self._clients[standby].descriptor.to_json()
            heads = list(own.values())
            request = Replicate(epoch, list(own), self._plan, self._run, to, transport, whole, heads)
            return client.replicate(request, self._checkpoint_timeout)

        size = sum(self._each(send).values())
        self._standbys = chosen
        return chosen, size

    def exposed(self) -> dict[str, str]:
        """Agents with state of which no replica is complete, each with the standby that is to have one.

        None before the first commit of a run: its state comes from the checkpoint, and the epoch sends it.
        """
        if self._committed_epoch < 0:
            return {}
        chosen = choose_standbys(self.agents, self._standbys)
        return {
            source: standby
            for source, standby in chosen.items()
            if self._live.get(source) and self._standbys.get(source) != standby
        }

    def resync(self, transport: str, may_spill: bool = True) -> int:
        """Have agents whose replicas are not complete write all that they hold to a standby, all at once; the bytes.

        What they hold is as of the last commit, and no other may be under way. What fails is left to the next epoch,
        which sends the same again. `may_spill`: nobody reads blocks at the same time.
        """
        epoch = self._committed_epoch
        exposed, sent = self.exposed(), dict[str, int]()

        def send(client: AgentClient) -> None:
            source = _name(client)
            standby = exposed.get(source)
            if standby is None or source in sent:
                return
            to = self._clients[standby].descriptor.to_json()
            request = Replicate(epoch, [], self._plan, self._run, to, transport, True, settled=True)
            try:
                sent[source] = client.replicate(request, self._checkpoint_timeout)
                self._standbys[source] = standby
            except ArenaFullError:
                raise
            except SlashError as error:
                logger.warning("%s has no replica until the next epoch: %s", client.descriptor, error)

        try:
            if may_spill:
                self.with_room(epoch + 1, lambda: self._each(send))
            else:
                self._each(send)
        except SlashError as error:
            logger.warning("epoch %d: not every agent has a replica until the next epoch: %s", epoch, error)
        return sum(sent.values())

    def make_room_ahead(self, epoch: int) -> None:
        """Before an epoch's update: agents whose arenas are nearly full spill, if they can."""
        full, self._full = self._full, set()
        if full:
            try:
                self._make_room(epoch, 0, full)
            except SpillError as error:
                logger.warning("epoch %d starts with little free memory in an arena: %s", epoch, error)

    def with_room(self, epoch: int, call: Callable[[], Result]) -> Result:
        """The result of a call for an uncommitted epoch. If an arena is full, agents spill, and the call is repeated.

        Raises:
            SpillError: no more can be spilled; the message has the numbers.
        """
        for _ in range(_MOST_SPILLS):
            try:
                return call()
            except ArenaFullError as error:
                logger.warning("epoch %d: an arena is full, agents spill to disk: %s", epoch, error)
                self._make_room(epoch, error.wanted_bytes, set(self._clients))
        return call()

    def restore(self, epoch: int, state: DurableState, agents: list[AgentDescriptor]) -> None:
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
        for agent in agents:
            self._client(agent)
        given = shares(state.files, list(self._clients))

        def read(client: AgentClient) -> CommitReply:
            files = [[file.name, file.bytes, file.crc] for file in given[_name(client)]]
            request = Restore(self._plan, self._run, state.directory.location, files)
            return client.restore(request, self._checkpoint_timeout)

        replies = self.with_room(epoch + 1, lambda: self._each(read))
        for incarnation, reply in replies.items():
            self._live[incarnation] = self._blocks(incarnation, reply.blocks)
        state.assign({file.name: holder for holder, files in given.items() for file in files})

    def store(self, epoch: int, receipts: list[Receipt], state: DurableState) -> list[BlockFile]:
        """Have every agent write its blocks of the epoch to the checkpoint, all at the same time. Returns the files.

        Raises:
            CheckpointError: a file cannot be written.
            StateLostError: an agent that has written blocks is gone.
        """
        reported = self._reported(receipts)

        def write(client: AgentClient) -> BlockFile | None:
            holder = _name(client)
            if holder not in reported:
                return None
            name, snapshot = f"{epoch}-{self._run}-{holder}.arrow", state.wants_snapshot(holder)
            offsets, heads = list(reported[holder]), list(reported[holder].values())
            request = Checkpoint(epoch, offsets, self._plan, self._run, state.directory.location, name, snapshot, heads)
            written = client.checkpoint(request, self._checkpoint_timeout)
            return BlockFile(name, **written, holder=holder, snapshot=snapshot)

        return [file for file in self._each(write).values() if file is not None]

    def lost_agents(self) -> list[AgentDescriptor]:
        """Agents that do not answer now."""
        answered = self._describe()
        return [client.descriptor for name, client in self._clients.items() if name not in answered]

    def commit(self, manifest: Manifest) -> None:
        """Make the epoch's blocks, and no others, part of the state. Idempotent.

        Raises:
            StateLostError: an agent that holds state of the query is gone.
        """
        reported: dict[str, dict[int, int]] = {}
        if manifest.epoch > self._restored_epoch:
            # Whose share a standby has taken over may live yet, and must not bring the same blocks in again.
            gone = self._replaced if manifest.epoch <= self._repaired_epoch else set()
            self.meet([agent for agent in manifest.agents if agent.incarnation not in gone])
            for incarnation, offset, head in manifest.blocks:
                if incarnation not in gone:
                    _report(reported, incarnation, offset, head)

        def commit(client: AgentClient) -> CommitReply:
            blocks = reported.get(_name(client), {})
            replicas = [
                [source, _pairs(reported.get(source, {}))]
                for source, standby in self._standbys.items()
                if standby == _name(client)
            ]
            heads = list(blocks.values())
            return client.commit(
                manifest.epoch, list(blocks), self._plan, self._run, heads, replicas, self._keeps_changes
            )

        replies = self._each(commit)
        self._committed_epoch = manifest.epoch
        for incarnation, reply in replies.items():
            self._live[incarnation] = self._blocks(incarnation, reply.blocks)
        self.memory = {
            f"{self._clients[name].descriptor.host}-{name[:8]}": {
                "used_bytes": reply.used_bytes,
                "arena_bytes": reply.arena_bytes,
                "spilled_bytes": reply.spilled_bytes,
            }
            for name, reply in replies.items()
        }
        self.used_bytes = sum(reply.used_bytes for reply in replies.values())
        self.spilled_bytes = sum(reply.spilled_bytes for reply in replies.values())
        self._full = {name for name, reply in replies.items() if reply.used_bytes > _HIGH_WATER * reply.arena_bytes}

    def release(self, before_pane: int) -> None:
        """Free panes below `before_pane`."""
        if before_pane != self._released:
            self._each(lambda client: client.release(before_pane, self._run))
            self._released = before_pane

    @contextmanager
    def discard_on_failure(self, epoch: int) -> Iterator[None]:
        """If the update inside fails, free what its tasks have published: the epoch's rows will be read again."""
        try:
            yield
        except BaseException:
            try:
                self._each(lambda client: client.discard(epoch, self._run))
            except SlashError as error:
                logger.warning(
                    "epoch %d failed, and its blocks stay in the arenas until the next commit: %s", epoch, error
                )
            raise

    def drop(self) -> None:
        """Free everything of the query."""
        self._each(lambda client: client.drop())

    def close(self) -> None:
        """Close the connections to the agents; their state stays."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _client(self, agent: AgentDescriptor) -> AgentClient:
        if agent.incarnation not in self._clients:
            self._clients[agent.incarnation] = AgentClient(
                agent, self.query_id, self._token, timeout_seconds=self._timeout, secret=self._secret
            )
        return self._clients[agent.incarnation]

    def _reported(self, receipts: list[Receipt]) -> dict[str, dict[int, int]]:
        """The blocks of an epoch by agent; adds these agents."""
        reported: dict[str, dict[int, int]] = {}
        for receipt in receipts:
            self._client(receipt.agent)
            _report(reported, receipt.agent.incarnation, receipt.head.arena_offset, head_crc(receipt.raw_head))
        return reported

    def _blocks(self, incarnation: str, heads: list[bytes]) -> list[LiveBlock]:
        agent = self._clients[incarnation].descriptor
        return [LiveBlock(agent, Head(raw), raw) for raw in heads]

    def _describe(self) -> dict[str, Described]:
        """The state of each agent that answers."""

        def ask(client: AgentClient) -> Described | None:
            try:
                return client.describe(self._probe_timeout)
            except (AgentError, StaleIncarnationError):
                return None

        return {name: held for name, held in self._each(ask).items() if held is not None}

    def _make_room(self, epoch: int, size: int, agents: set[str]) -> None:
        request = MakeRoom(epoch, self._run, size, *self._spill)
        self._each(lambda client: client.make_room(request, self._checkpoint_timeout) if _name(client) in agents else 0)

    def _each(self, call: Callable[[AgentClient], Result]) -> dict[str, Result]:
        """Make the call on every agent, on all at the same time."""
        clients = list(self._clients.values())
        try:
            if len(clients) <= 1:
                return {_name(client): call(client) for client in clients}
            with ThreadPoolExecutor(min(32, len(clients)), thread_name_prefix="pyslash-coordinator") as pool:
                return dict(zip(map(_name, clients), pool.map(call, clients), strict=True))
        except (AgentError, StaleIncarnationError) as error:
            raise StateLostError(
                f"the state of the query cannot be reached: {error}. With spark.slash.durability=checkpoint, replica "
                "or both it comes back; otherwise restart the query with a new checkpointLocation."
            ) from error


def _pairs(blocks: dict[int, int]) -> list[list[int]]:
    """[offset, CRC of the head] of each block."""
    return [[offset, head] for offset, head in blocks.items()]


def _report(reported: dict[str, dict[int, int]], incarnation: str, offset: int, head: int) -> None:
    """Add a block to those that tasks have reported for an agent: offset -> CRC of the head.

    Raises:
        StateLostError: another block was reported in the same place, so one of them was freed in between.
    """
    if reported.setdefault(incarnation, {}).setdefault(offset, head) != head:
        raise StateLostError(
            f"two tasks of one epoch reported blocks at {offset} of agent {incarnation[:8]}: the first is gone. "
            "Start the query again"
        )


def _name(client: AgentClient) -> str:
    return client.descriptor.incarnation
