"""Agents without processes: real state over real arenas, and the two ways to reach them, a wire and a memory bus."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa

from pyslash import _native
from pyslash.agent.checkpoint import Checkpointer
from pyslash.agent.compaction.epoch_folding import EpochFolding
from pyslash.agent.compaction.folding import Fold, Folded, Folding
from pyslash.agent.replicate import Replicator
from pyslash.agent.store.adopt import relocated
from pyslash.agent.store.figures import Figures
from pyslash.agent.store.replica_calls import ReplicaCalls
from pyslash.agent.store.spiller import Spiller
from pyslash.agent.store.state import AgentState
from pyslash.errors import AgentTimeoutError, AgentUnavailableError, SlashError, StaleIncarnationError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.codec import body, parse
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Empty, Request
from pyslash.transport.reserved import reserved_block
from tests.model.schedule import CALL, Kind
from tests.model.world import AgentDied, Violation, World, flipped

Fill = Callable[[_native.Accumulator], None]

_ARENA_BYTES = 4 << 20
_COMMITTED = 3
_QUERY_ID = UUID(int=0x5159).bytes


class Agent:
    """One agent's process."""

    def __init__(self, world: World) -> None:
        incarnation = world.chance.randbytes(16)
        self._fd = os.memfd_create("pyslash-model", os.MFD_CLOEXEC)
        self.arena = _native.Arena.create(self._fd, _ARENA_BYTES, incarnation)
        self.state = AgentState(self.arena, self._fd, incarnation)
        spiller = Spiller(self.state)
        self._parts = (
            SimpleNamespace(room=spiller.make),
            self.state,
            ReplicaCalls(self.state),
            Figures(self.state),
            Replicator(self.state, bytes(32)),
            Checkpointer(self.state),
            EpochFolding(self.state),
        )
        self.alive = True
        self._folds = Folding(self.state)
        self._folding: tuple[Fold, Folded] | None = None
        self.descriptor = AgentDescriptor(
            pid=len(world.agents),
            start_time=0,
            fd=self._fd,
            arena_bytes=_ARENA_BYTES,
            incarnation=incarnation.hex(),
            socket="",
            host="model",
            port=0,
            boot_id="model",
            log="",
            fabric="",
        )
        world.agents.append(self)
        world.say(f"{self.descriptor} starts")

    def die(self) -> None:
        """Its memory goes with it."""
        self.alive = False

    def close(self) -> None:
        """The run is over."""
        self.arena.close()
        os.close(self._fd)

    def check_nothing_leaked(self) -> None:
        """Once it has swept, its arena holds what is live, and room that late attempts still hold.

        Raises:
            Violation: more than that, or less.
        """
        if not self.alive:
            return
        if self._folding is not None:
            self._folds.end(*self._folding)
        self.state.sweep()
        committed = {offset for offset, _, state, *_ in self.arena.blocks() if state == _COMMITTED}
        sets = [blocks for query in self.state.queries.values() for blocks in query.block_sets()]
        live = {offset for blocks in sets for offset in blocks.live}
        disk = self.state.holding.disk
        waiting = [blocks.compacted for blocks in sets if blocks.compacted is not None]
        on_disk = sum(offset in disk for offset in (*live, *(at for one in waiting for at in one.offsets())))
        if committed != {offset for offset in live if offset not in disk} or len(disk) != on_disk:
            raise Violation(
                f"{self.descriptor} holds {sorted(live)}, its arena {sorted(committed)}, its disk {len(disk)}"
            )

    def work(self, world: World) -> None:
        """What its compactor does by itself, one step."""
        if not self.alive:
            return
        if self._folding is not None:
            self._folds.end(*self._folding)
            self._folding = None
        elif world.chance.random() < 0.2:
            self.state.sweep()
        elif (job := self._folds.begin()) is not None:
            self._folding = (job, self._folds.fold(job))

    def answer(self, query: bytes, name: str, request: Request) -> dict[str, Any]:
        """A call as the server would pass it on: checked, and through JSON both ways."""
        checked = parse(type(request), body(request))
        method = next(getattr(part, name) for part in self._parts if hasattr(part, name))
        answer: dict[str, Any] = method(query) if isinstance(checked, Empty) else method(query, checked)
        return dict(json.loads(json.dumps(answer)))

    def overwrite(self, offset: int, data: bytes) -> None:
        """A peer writes into what is reserved for it."""
        reserved_block(self.arena, os.getpid(), _QUERY_ID, offset, len(data))
        os.pwrite(self._fd, data, offset)

    def publish(self, plan: str, fill: Fill, watermark_us: int, query: bytes, epoch: int, attempt: int) -> bytes:
        """A task of this executor that seals what `fill` adds: its block's head."""
        return _sealed(self.arena, plan, fill, watermark_us, query, epoch, attempt)

    def publish_later(
        self, world: World, plan: str, fill: Fill, watermark_us: int, query: bytes, epoch: int, attempt: int
    ) -> None:
        """An attempt that was thought dead: it has its room in the arena now, or takes it when it comes to itself."""
        scratch = os.memfd_create("pyslash-model", os.MFD_CLOEXEC)
        arena = _native.Arena.create(scratch, _ARENA_BYTES, bytes(16))
        os.close(scratch)
        head = _native.Head(_sealed(arena, plan, fill, watermark_us, query, epoch, attempt))
        if head.length == 0:
            return
        block = bytes(arena.view(head.arena_offset, head.length))
        offset = self.arena.allocate(head.length, query, epoch) if world.chance.random() < 0.5 else None

        def publish() -> None:
            if not self.alive:
                return
            at = self.arena.allocate(head.length, query, epoch) if offset is None else offset
            raw = relocated(block[: head.head_length], query, self.arena.incarnation, at)
            os.pwrite(self._fd, raw + block[head.head_length :], at)
            try:
                self.arena.publish(at)
            except SlashError as refused:
                world.say(f"the late attempt is refused: {refused}")

        world.later(f"late attempt {attempt} of epoch {epoch} publishes on {self.descriptor}", publish)


def _sealed(arena: Any, plan: str, fill: Fill, watermark_us: int, query: bytes, epoch: int, attempt: int) -> bytes:
    accumulator = _native.Accumulator(_native.Plan(plan), watermark_us)
    fill(accumulator)
    return bytes(accumulator.seal(arena, query, epoch, attempt))


class Cluster:
    """The executors of an application. Each starts an agent when one is needed."""

    def __init__(self, world: World, executors: int) -> None:
        self._world = world
        self._agents: list[Agent | None] = [None] * executors

    def resize(self, executors: int) -> None:
        """Executors come, or go with their agents."""
        for agent in self._agents[executors:]:
            if agent is not None:
                agent.die()
        self._agents = (self._agents + [None] * executors)[:executors]

    @property
    def size(self) -> int:
        """Executors, with an agent or without."""
        return len(self._agents)

    def agents(self) -> list[Agent]:
        """Those that live."""
        return [agent for agent in self._agents if agent is not None and agent.alive]

    def ensure(self) -> list[Agent]:
        """One for each executor."""
        for index, agent in enumerate(self._agents):
            if agent is None or not agent.alive:
                self._agents[index] = Agent(self._world)
        return self.agents()

    def end(self) -> None:
        """The application ends."""
        for agent in self.agents():
            agent.die()


def wire_to(world: World) -> type[AgentClient]:
    """`AgentClient` over a wire that loses, delays and duplicates."""

    class WireClient(AgentClient):
        def __init__(self, descriptor: AgentDescriptor, query: bytes, *_: Any, **__: Any) -> None:
            self.descriptor = descriptor
            self._query = query

        def close(self) -> None:
            pass

        def act(self, name: str, request: Request, timeout_seconds: float | None = None) -> dict[str, Any]:
            agent = _agent(world, self.descriptor)
            fault = world.point(f"calls {name} of {self.descriptor}", CALL)
            silent = AgentTimeoutError(f"{self.descriptor}: {name}: no answer within 30 s")
            if fault is Kind.DELAYED:
                world.later(f"a delayed {name} arrives", lambda: self._arrive(agent, name, request))
            if fault in (Kind.DELAYED, Kind.REQUEST_LOST):
                raise silent
            if not agent.alive:
                raise AgentUnavailableError(f"{self.descriptor}: {name}: nobody listens")
            try:
                with world.inside(agent):
                    answer = agent.answer(self._query, name, request)
            except AgentDied:
                if agent.alive:  # it is the one that calls
                    raise
                raise AgentUnavailableError(f"{self.descriptor}: {name}: nobody listens") from None
            if fault is Kind.DUPLICATED:
                if world.chance.random() < 0.5:
                    self._arrive(agent, name, request)
                else:
                    world.later(f"{name} arrives again", lambda: self._arrive(agent, name, request))
            if fault is Kind.REPLY_LOST:
                raise silent
            world.point(f"has the answer of {name}")
            return answer

        def _arrive(self, agent: Agent, name: str, request: Request) -> None:
            if not agent.alive:
                return
            world.muted(lambda: _unheard(world, lambda: agent.answer(self._query, name, request)))

    return WireClient


def _unheard(world: World, call: Callable[[], Any]) -> None:
    try:
        call()
    except SlashError as refused:
        world.say(f"refused: {refused}")


class MemoryBus:
    """The transport of merges; it looks into arenas, and may flip a bit on the way."""

    name = "model"

    def __init__(self, world: World) -> None:
        self._world = world

    def read(self, peer: AgentDescriptor, block_offset: int, ranges: list[tuple[int, int]]) -> list[Any]:
        """See `Transport.read`."""
        agent = _agent(self._world, peer)
        fault = self._world.point(f"reads {peer}", frozenset({Kind.LINK_FLIPPED}))
        if not agent.alive:
            raise StaleIncarnationError(f"{peer} is gone, and its arena with it")
        disk = agent.state.holding.disk
        if block_offset in disk:
            views = [disk.view(block_offset, offset, length) for offset, length in ranges]
        else:
            views = [agent.arena.view(block_offset + offset, length) for offset, length in ranges]
        if fault is Kind.LINK_FLIPPED:
            views[0] = pa.py_buffer(flipped(views[0], self._world.chance))
        return views

    def write(self, peer: AgentDescriptor, offset: int, data: Any) -> None:
        """See `Transport.write`."""
        agent = _agent(self._world, peer)
        fault = self._world.point(f"writes to {peer}", frozenset({Kind.LINK_FLIPPED}))
        if not agent.alive:
            raise StaleIncarnationError(f"{peer} is gone, and its arena with it")
        agent.overwrite(offset, flipped(data, self._world.chance) if fault is Kind.LINK_FLIPPED else bytes(data))


class InOrder:
    """`ThreadPoolExecutor` in one thread, in an order of the schedule's."""

    def __init__(self, world: World) -> None:
        self._world = world

    def shutdown(self) -> None:
        """It has no thread."""

    def map(self, call: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """All calls are made, whatever becomes of one; failures are raised in the items' order."""
        todo = list(enumerate(items))
        self._world.chance.shuffle(todo)
        outcomes: dict[int, tuple[Any, Exception | None]] = {}
        for index, item in todo:
            try:
                outcomes[index] = (call(item), None)
            except Exception as error:
                outcomes[index] = (None, error)
        for index in sorted(outcomes):
            value, error = outcomes[index]
            if error is not None:
                raise error
            yield value


def _agent(world: World, descriptor: AgentDescriptor) -> Agent:
    return next(agent for agent in world.agents if agent.descriptor.incarnation == descriptor.incarnation)
