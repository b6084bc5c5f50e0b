"""What the driver side of a query reaches of its application; `tests/model` puts others in their place."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from uuid import UUID

from pyspark.sql import SparkSession

from pyslash.cluster.find_agents import executors, find_agents
from pyslash.driver.background_task import BackgroundTask
from pyslash.emit.repartition import ingest_of
from pyslash.ingest.update_job import Ingest
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.backfill import Backfills
from pyslash.state.files.checkpoint_files import CheckpointFiles, checkpoint_files
from pyslash.state.run_number import next_run
from pyslash.units import Run


@dataclass(frozen=True)
class Ports:
    """Files and backfills of a checkpoint, executors and their agents, calls to agents, update jobs, threads, the clock
    of runs and that of seconds; and what has to be over before a query of this id begins: its run before.
    """

    files: Callable[[SparkSession, str, str], CheckpointFiles] = checkpoint_files
    backfills: Callable[[str], Backfills] = Backfills
    executors: Callable[[SparkSession], int] = executors
    find_agents: Callable[..., list[AgentDescriptor]] = find_agents
    client: Callable[..., AgentClient] = AgentClient
    pool: Callable[..., Executor] = ThreadPoolExecutor
    ingest: Callable[..., Ingest] = ingest_of
    background_task: Callable[[Callable[[], bool], str, Callable[[Exception], None]], BackgroundTask] = BackgroundTask
    next_run: Callable[[Run], Run] = next_run
    seconds: Callable[[], float] = time.monotonic
    settle: Callable[[UUID], None] = lambda _: None
