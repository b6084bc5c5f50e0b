"""How a task in Python publishes a block of state: in the arena of its executor's agent, which it starts if need be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from pyslash import errors
from pyslash._native import Accumulator, Arena, Plan, SessionMerger
from pyslash.cluster.find_agents import executor_host
from pyslash.ingest.worker import keep_freed_memory, spare_collections
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.receipt import receipt_bytes
from pyslash.units import BEFORE_ALL_RUNS, Epoch, Micros, Run


@dataclass(frozen=True)
class BlockPublisher:
    """What a task publishes one block of `epoch` with; sent to executors.

    Rows have the event time and the columns of `plan` in order. Those whose last window ended at or before
    `watermark_us` are late.
    """

    plan: str
    watermark_us: Micros
    query: bytes
    epoch: Epoch
    secret: bytes = field(repr=False)
    arena_bytes: int
    driver_host: str | None = None
    runtime_dir: str | None = None
    start_timeout_seconds: float = 30
    run: Run = BEFORE_ALL_RUNS
    spill_directory: str = ""
    spill_bytes: int = 0
    room_timeout_seconds: float = 120
    tcp: bool = True

    def receipt(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        """Aggregate all rows into one published block of the executor's arena. Returns its receipt."""

        def add(accumulator: Accumulator) -> None:
            for batch in batches:
                accumulator.add(batch)

        return self.sealed(add)

    def sealed(self, fill: Callable[[Accumulator], None]) -> bytes:
        """Aggregate what `fill` adds into one published block of the executor's arena. Returns its receipt."""

        def filled(partition: int) -> Accumulator:
            accumulator = Accumulator(Plan(self.plan), self.watermark_us, self.epoch, partition)
            fill(accumulator)
            return accumulator

        return self.published(filled)

    def published(self, make: Callable[[int], Accumulator | SessionMerger]) -> bytes:
        """Publish the block that `make` makes, given the number of the partition, in the executor's arena.

        Raises:
            AgentStartError: the executor's agent could not be started.
            ArenaFullError: no room for the block, even after the agent has spilled; nothing was written then.
            SpillError: the agent could not make room.
        """
        from pyspark import TaskContext

        from pyslash.agent.process.launch import ensure_from_worker

        began = time.perf_counter_ns()
        agent = ensure_from_worker(
            self.secret,
            self.arena_bytes,
            executor_host(self.driver_host),
            self.runtime_dir,
            self.start_timeout_seconds,
            self.tcp,
        )
        context = TaskContext.get()
        attempt, partition = (context.taskAttemptId(), context.partitionId()) if context is not None else (0, 0)
        keep_freed_memory()
        made = make(partition)
        handle = os.open(agent.arena_path, os.O_RDWR | os.O_CLOEXEC)
        try:
            arena = Arena.attach(handle, agent.incarnation_bytes)
        finally:
            os.close(handle)
        try:
            head = made.seal(arena, self.query, self.epoch, attempt)
        except errors.ArenaFullError as full:
            self._make_room(agent, full.wanted_bytes)
            head = made.seal(arena, self.query, self.epoch, attempt)
        spare_collections()
        return receipt_bytes(agent, head, time.perf_counter_ns() - began)

    def _make_room(self, agent: AgentDescriptor, size: int) -> None:
        from pyslash.protocol.client import AgentClient
        from pyslash.protocol.messages import MakeRoom
        from pyslash.protocol.token import query_token

        room = MakeRoom(self.epoch, self.run, size, self.spill_directory, self.spill_bytes)
        token = query_token(self.secret, self.query)
        with AgentClient(agent, self.query, token, secret=self.secret) as client:
            client.make_room(room, self.room_timeout_seconds)
