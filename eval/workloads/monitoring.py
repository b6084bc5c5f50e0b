"""Cluster monitoring: queries of the stream-processing literature over a Google cluster trace of 2011.

Rows have the schema of the trace's `task_events`. They are generated, or taken from the public files: then they come in
the trace's order, from its beginning again where more are wanted, at the workload's own even pace instead of the
trace's sixty events a second.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from eval.workloads.base import Workload, timestamps
from eval.workloads.choice import cumulative, draw, zipf
from eval.workloads.query import Aggregation, Query
from eval.workloads.trace import read_task_events

JOBS = 240
JOB_ZIPF = 1.0592  # gives the hottest of 240 jobs 19 % of the rows
MACHINES = 12_500
SCHEDULE = 1
# Shares by event type: submit, schedule, evict, fail, finish, kill, lost, update pending, update running.
EVENT_TYPES = (0.334, 0.327, 0.041, 0.096, 0.126, 0.072, 0.0005, 0.001, 0.0025)
CATEGORIES = (0.72, 0.14, 0.10, 0.04)  # scheduling classes, from batch work to what users wait for
PRIORITIES = (0.35, 0.1, 0.1, 0.02, 0.33, 0.01, 0.01, 0.01, 0.04, 0.02, 0.005, 0.005)
REQUESTS = (0.00625, 0.0125, 0.025, 0.03125, 0.0625, 0.125, 0.25, 0.5)  # of the largest machine


@dataclass(frozen=True)
class Monitoring(Workload):
    """`trace`: a CSV or CSV.gz file of `task_events`; empty: generated rows."""

    event_time: ClassVar[str] = "event_time"

    rows: int = 10_000_000
    trace: str = ""

    def rows_from(self, begin: int, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """From the trace: its rows from `begin` on."""
        if not self.trace:
            return self.table(generator, event_time)
        trace = read_task_events(self.trace)
        taken = trace.take(pa.array((begin + np.arange(len(event_time))) % trace.num_rows))
        return taken.add_column(0, "event_time", timestamps(event_time))

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """The event time and `trace.KEPT`."""
        size = len(event_time)
        requests = np.array(REQUESTS)
        integers = generator.integers
        return pa.table(
            {
                "event_time": timestamps(event_time),
                "job_id": 3_418_309 + draw(generator, zipf(JOBS, JOB_ZIPF), size),
                "task_index": integers(0, 1_000, size, dtype=np.int32),
                "machine_id": integers(0, MACHINES, size),
                "event_type": draw(generator, cumulative(EVENT_TYPES), size).astype(np.int32),
                "category": draw(generator, cumulative(CATEGORIES), size).astype(np.int32),
                "priority": draw(generator, cumulative(PRIORITIES), size).astype(np.int32),
                "cpu": requests[integers(0, len(requests), size)],
                "memory": requests[integers(0, len(requests), size)],
                "disk": requests[integers(0, len(requests), size)] / 1000,
                "different_machines": integers(0, 2, size).astype(bool),
            }
        )

    @property
    @abstractmethod
    def statement(self) -> Query:
        """Any of the queries."""


@dataclass(frozen=True)
class CategoryLoad(Monitoring):
    """CM1: the processors asked for, by scheduling class, 60 s sliding by 1 s."""

    name: ClassVar[str] = "cm1"

    @property
    def statement(self) -> Query:
        """`sum(cpu)` by category."""
        total = Aggregation("total_cpu", "sum", "cpu")
        return Query(time="event_time", keys=("category",), aggregations=(total,), window_s=60, slide_s=1)


@dataclass(frozen=True)
class JobLoad(Monitoring):
    """CM2: the processors asked for by tasks that are scheduled, on average, by job, 60 s sliding by 1 s."""

    name: ClassVar[str] = "cm2"

    @property
    def statement(self) -> Query:
        """`avg(cpu)` by job of the schedule events."""
        return Query(
            time="event_time",
            where=f"event_type = {SCHEDULE}",
            keys=("job_id",),
            aggregations=(Aggregation("average_cpu", "avg", "cpu"),),
            window_s=60,
            slide_s=1,
        )


@dataclass(frozen=True)
class JobUse(Monitoring):
    """CM of the RDMA literature: the processors asked for, on average, by job, 2 s tumbling."""

    name: ClassVar[str] = "cm"

    @property
    def statement(self) -> Query:
        """`avg(cpu)` by job."""
        average = Aggregation("average_cpu", "avg", "cpu")
        return Query(time="event_time", keys=("job_id",), aggregations=(average,), window_s=2, slide_s=2)
