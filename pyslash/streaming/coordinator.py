"""The coordinator of one query: which agents hold its state, which blocks are live, and the calls that change that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pyslash._native import Head
from pyslash.agent.client import AgentClient, CommitReply
from pyslash.agent.descriptor import AgentDescriptor
from pyslash.agent.request import Checkpoint, Restore
from pyslash.agent.token import query_token
from pyslash.checkpoint.block_file import head_crc
from pyslash.checkpoint.directory import BlockFile
from pyslash.errors import AgentError, SlashError, StaleIncarnationError, StateLostError
from pyslash.streaming.durable import DurableState, shares
from pyslash.streaming.manifest import Manifest
from pyslash.tasks.receipt import Receipt

Result = TypeVar("Result")
logger = logging.getLogger("pyslash")


@dataclass(frozen=True)
class LiveBlock:
    """A committed block: who holds it, and its head."""

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
    ) -> None:
        self.query_id = query_id
        self.token = query_token(secret, query_id)
        self._plan = plan
        self._timeout = timeout_seconds
        self._run = run
        self._checkpoint_timeout = checkpoint_timeout_seconds
        self._restored_epoch = -1
        self._clients: dict[str, AgentClient] = {}
        self._live: dict[str, list[LiveBlock]] = {}
        self._released: int | None = None
        self.used_bytes = 0

    @property
    def agents(self) -> list[AgentDescriptor]:
        """Every agent that holds state of the query."""
        return [client.descriptor for client in self._clients.values()]

    def live_blocks(self) -> list[LiveBlock]:
        """Blocks as of the last commit."""
        return [block for blocks in self._live.values() for block in blocks]

    def reconnect(self, agents: list[AgentDescriptor]) -> None:
        """Find the query's state again where an earlier run of it has left it.

        Raises:
            StateLostError: one of the agents is gone.
        """
        for agent in agents:
            self._client(agent)
        for incarnation, described in self._each(lambda client: client.describe()).items():
            self._live[incarnation] = self._blocks(incarnation, described.blocks)

    def restore(self, epoch: int, state: DurableState, agents: list[AgentDescriptor]) -> None:
        """Give the files of the state as of `epoch` to these agents, each a share.

        Raises:
            CheckpointError, CorruptBlockError: a file is missing, or is not what its manifest says.
            ArenaFullError: the agents have too little room.
            StateLostError: there is no agent, or one is gone already.
        """
        if not state.files:
            self._restored_epoch = epoch  # whoever had a part in it, nothing of it is left to be found
            return
        if not agents:
            raise StateLostError("no executor is there to restore the query's state to; start one")
        for agent in agents:
            self._client(agent)
        given = shares(state.files, list(self._clients))
        replies = self._each(
            lambda client: client.restore(
                Restore(
                    self._plan,
                    self._run,
                    state.directory.location,
                    [[file.name, file.bytes, file.crc] for file in given[_name(client)]],
                ),
                self._checkpoint_timeout,
            )
        )
        for incarnation, reply in replies.items():
            self._live[incarnation] = self._blocks(incarnation, reply.blocks)
        state.assign({file.name: holder for holder, files in given.items() for file in files})
        self._restored_epoch = epoch

    def store(self, epoch: int, receipts: list[Receipt], state: DurableState) -> list[BlockFile]:
        """Have every agent write its blocks of the epoch to the checkpoint, all at the same time; the files.

        Raises:
            CheckpointError: a file cannot be written.
            StateLostError: an agent that has written blocks is gone.
        """
        reported: dict[str, dict[int, int]] = {}
        for receipt in receipts:
            self._client(receipt.agent)
            _report(reported, receipt.agent.incarnation, receipt.head.arena_offset, head_crc(receipt.raw_head))

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
        """Agents that do not answer: asked now, not remembered."""
        lost = []
        for client in self._clients.values():
            try:
                client.describe()
            except (AgentError, StaleIncarnationError):
                lost.append(client.descriptor)
        return lost

    def commit(self, manifest: Manifest) -> None:
        """Make the epoch's blocks, and no others, part of the state. Idempotent.

        Raises:
            StateLostError: an agent that holds state of the query is gone.
        """
        reported: dict[str, dict[int, int]] = {}
        if manifest.epoch > self._restored_epoch:
            for agent in manifest.agents:
                self._client(agent)
            for incarnation, offset, head in manifest.blocks:
                _report(reported, incarnation, offset, head)

        def commit(client: AgentClient) -> CommitReply:
            blocks = reported.get(_name(client), {})
            return client.commit(manifest.epoch, list(blocks), self._plan, self._run, list(blocks.values()))

        replies = self._each(commit)
        self.used_bytes = 0
        for incarnation, reply in replies.items():
            self._live[incarnation] = self._blocks(incarnation, reply.blocks)
            self.used_bytes += reply.used_bytes

    def release(self, before_pane: int) -> None:
        """Panes below `before_pane` are needed no more."""
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
                logger.warning("blocks of the failed epoch %d stay until the next commit: %s", epoch, error)
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
                agent, self.query_id, self.token, timeout_seconds=self._timeout
            )
        return self._clients[agent.incarnation]

    def _blocks(self, incarnation: str, heads: list[bytes]) -> list[LiveBlock]:
        agent = self._clients[incarnation].descriptor
        return [LiveBlock(agent, Head(raw), raw) for raw in heads]

    def _each(self, call: Callable[[AgentClient], Result]) -> dict[str, Result]:
        """The call on every agent, at the same time where there are several."""
        clients = list(self._clients.values())
        try:
            if len(clients) <= 1:
                return {_name(client): call(client) for client in clients}
            with ThreadPoolExecutor(min(32, len(clients)), thread_name_prefix="pyslash-coordinator") as pool:
                return dict(zip(map(_name, clients), pool.map(call, clients), strict=True))
        except (AgentError, StaleIncarnationError) as error:
            raise StateLostError(
                f"partial window state is out of reach: {error}. With spark.slash.durability=checkpoint it is "
                "restored; otherwise restart the query with a new checkpointLocation."
            ) from error


def _report(reported: dict[str, dict[int, int]], incarnation: str, offset: int, head: int) -> None:
    """Add a block to those that tasks have reported of an agent: offset -> CRC of the head.

    Raises:
        StateLostError: another block was reported in the same place: it has been freed in between.
    """
    if reported.setdefault(incarnation, {}).setdefault(offset, head) != head:
        raise StateLostError(
            f"two tasks of one epoch have reported blocks at {offset} of agent {incarnation[:8]}: the first is gone. "
            "Start the query again"
        )


def _name(client: AgentClient) -> str:
    return client.descriptor.incarnation
