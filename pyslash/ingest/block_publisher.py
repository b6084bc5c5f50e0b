"""How a task in Python publishes a block of state: in the arena of its executor's agent, which it starts if need be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from pyslash._native import Accumulator, Arena, Plan, SessionMerger
from pyslash.cluster.find_agents import executor_host
from pyslash.ingest.worker import keep_freed_memory, spare_collections
from pyslash.state.receipt import receipt_bytes
from pyslash.units import Epoch, Micros


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
            ArenaFullError: no room for the block; nothing was written then. It is for the driver to have agents spill,
                since other tasks may read blocks at the places that it knows of.
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
        head = made.seal(arena, self.query, self.epoch, attempt)
        spare_collections()
        return receipt_bytes(agent, head, time.perf_counter_ns() - began)
