"""The named points of an epoch, in the driver and in its tasks: where a `Strike` is waited for.

`Arm.install` wraps the functions that bound each point. It is for a process of its own: nothing is ever unwrapped.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pyslash._native import Accumulator, SessionMerger
from pyslash.cluster.coordinator import Coordinator
from pyslash.driver.epoch import EpochRunner
from pyslash.driver.operator_run import OperatorRun
from pyslash.driver.operator_runner import OperatorRunner
from pyslash.driver.sinks import FunctionSink, SparkSink
from pyslash.emit import repartition
from pyslash.emit.aggregate_rows import AggregateRows
from pyslash.emit.column_merge import ColumnMerge
from pyslash.ingest import update_job as ingest
from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.ingest.update_job import Ingest
from pyslash.operators.transform.steps import TransformWithState
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.execution import BatchExecution
from pyslash.state.manifest import ManifestLog
from tests.faults.strike import (
    BETWEEN_POINT,
    COMPACTED_POINT,
    FOLDED_POINT,
    GATHER_POINTS,
    OWNER_POINT,
    PUBLISH_POINT,
    PUBLISHED_POINT,
    READING_POINTS,
    SINK_POINT,
    Strike,
    executor_of,
)

# Conf under which an epoch's update runs in tasks of Python, where PUBLISH_POINT can be reached.
UPDATES_IN_PYTHON = {"ingest": "files"}
# Conf under which an epoch's merges run in tasks, where "mid-merge" can be reached.
MERGES_IN_TASKS = {"merge.driverBytes": "0"}
_IN_CREATE = 0x100
_EVENT = struct.Struct("iIII")  # of inotify: watch, mask, cookie, length of the name that follows


class Arm:
    """Waits for the points of some strikes."""

    def __init__(self, inside: Path | None = None) -> None:
        """`inside`: the folder that executors and agents look into for strikes at their points."""
        self.strikes: Sequence[Strike] = ()
        self._inside = inside
        self._epoch = -1
        self._operator = 0
        self._coordinator: Coordinator | None = None
        self._update_again: Callable[[], object] = lambda: None
        self._in_merge: Strike | None = None
        self.epoch_begins: Callable[[int], None] = lambda epoch: None

    def install(self) -> None:
        """Wrap whatever bounds a point; once a process."""
        self._wrap(EpochRunner, "__call__", before=self._begin)
        self._wrap(OperatorRunner, "merged", before=self._begin_operator)
        self._wrap(
            OperatorRun,
            "merge",
            before=lambda *_: self._arm_inside({*READING_POINTS, *GATHER_POINTS} - {PUBLISHED_POINT}, self._epoch),
        )
        self._wrap(Coordinator, "__init__", before=lambda made, *_: setattr(self, "_coordinator", made))
        self._wrap(
            Ingest,
            "update",
            before=lambda _, execution, epoch, *more: self.reach("before update", epoch),
            after=lambda _, execution, epoch, *more: self.reach("after publish", epoch),
            keep=True,
        )
        self._wrap(
            TransformWithState,
            "update",
            before=lambda _, inputs: self.reach("before update", inputs.epoch),
            after=lambda _, inputs: self.reach("after publish", inputs.epoch),
        )
        self._wrap(
            ManifestLog,
            "create",
            before=lambda _, manifest: self.reach("after checkpoint", manifest.epoch),
            after=lambda _, manifest: self.reach("after manifest", manifest.epoch),
        )
        self._wrap(
            AgentClient,
            "commit",
            after=lambda client, epoch, *_: self.reach("after commit, before its answer", epoch, client.descriptor),
        )
        self._wrap(Coordinator, "commit", after=lambda _, manifest: self.reach("after commit", manifest.epoch))
        self._wrap(Coordinator, "release", before=lambda *_: self.reach("before release", self._epoch))
        self._wrap(AgentClient, "checkpoint", before=self._mid_checkpoint)
        self._wrap(BatchExecution, "above", before=lambda *_: self.reach(BETWEEN_POINT, self._epoch))
        self._strike_merges()
        self._wrap(SparkSink, "write", before=lambda _, result, epoch: self._arm_inside({SINK_POINT}, epoch))
        for sink in (FunctionSink, SparkSink):
            self._wrap(
                sink,
                "write",
                after=lambda _, result, epoch: self.reach("between the sink's write and Spark's commit", epoch),
            )

    def wait_for(self, strikes: Sequence[Strike]) -> None:
        """Those of the queries that are about to start; what earlier ones still have to do strikes nobody."""
        self.strikes, self._epoch, self._operator = strikes, -1, 0

    def reach(self, point: str, epoch: int, agent: AgentDescriptor | None = None) -> None:
        """The driver is at `point`; the victim is `agent`, else the first that holds state of the query."""
        strike = self._due(point, epoch)
        if strike is None:
            return
        if strike.fault == "zombie":
            self._update_again()
        elif strike.fault == "kill driver":
            strike.befall(0, 0)
        else:
            assert self._coordinator is not None
            victim = agent or self._coordinator.agents[0]
            strike.befall(executor_of(victim), victim.pid)

    def _due(self, point: str, epoch: int) -> Strike | None:
        for strike in self.strikes:
            if strike.is_due(point, epoch, self._operator) and strike.claim():
                return strike
        return None

    def _mid_checkpoint(self, client: AgentClient, request: Any, *_: Any) -> None:
        """A kill while the file is written: as soon as the agent has created it."""
        strike, victim = self._due("mid-checkpoint", request.epoch), client.descriptor
        if strike is None:
            return
        if strike.fault not in ("kill agent", "kill executor", "kill driver"):
            strike.befall(executor_of(victim), victim.pid)
            return
        folder = Path("/" + request.directory.removeprefix("file:").lstrip("/"))
        folder.mkdir(parents=True, exist_ok=True)
        wait = until_created(folder, f".{request.name}.")

        def kill() -> None:
            wait()
            strike.befall(executor_of(victim), victim.pid)

        threading.Thread(target=kill, daemon=True).start()

    def _begin(self, _: EpochRunner, batch: Any, epoch: int) -> None:
        self._epoch = epoch
        self.epoch_begins(epoch)
        due = {strike.point: strike for strike in self.strikes if strike.epoch == epoch}
        merge, own, publish = due.get("mid-merge"), due.get(OWNER_POINT), due.get(PUBLISH_POINT)
        self._in_merge = merge
        ingest.BlockPublisher = partial(StruckPublisher, strike=publish) if publish else BlockPublisher
        repartition.AggregateRows = partial(StruckOwner, strike=own) if own else AggregateRows
        if self._inside is not None:
            for point in (*READING_POINTS, *GATHER_POINTS, COMPACTED_POINT, FOLDED_POINT, SINK_POINT):
                (self._inside / point).unlink(missing_ok=True)

    def _begin_operator(self, _: OperatorRunner, __: Any, epoch: int, progress: Any) -> None:
        self._operator = progress.operator
        self._arm_inside({PUBLISHED_POINT, COMPACTED_POINT, FOLDED_POINT}, epoch)

    def _arm_inside(self, points: Collection[str], epoch: int) -> None:
        """The operator's rows are read later: by the update of the one above it, or by the sink."""
        for strike in self.strikes:
            if strike.point in points and strike.is_due(strike.point, epoch, self._operator):
                assert self._inside is not None
                victim = None
                if strike.point == SINK_POINT:
                    assert self._coordinator is not None
                    victim = executor_of(self._coordinator.agents[0])
                replace(strike, victim=victim).write(self._inside / strike.point)

    def _strike_merges(self) -> None:
        real = ColumnMerge.rows

        def rows(this: ColumnMerge, session: Any, request: Any, schema: Any, *more: Any, **named: Any) -> DataFrame:
            merged = real(this, session, request, schema, *more, **named)
            if self._in_merge is None:
                return merged
            return merged.mapInArrow(partial(passed_and_strike, self._in_merge), schema)

        ColumnMerge.rows = rows

    def _wrap(
        self,
        owner: Any,
        name: str,
        before: Callable[..., None] = lambda *_: None,
        after: Callable[..., None] = lambda *_: None,
        keep: bool = False,
    ) -> None:
        real = getattr(owner, name)

        def wrapped(this: Any, *arguments: Any, **named: Any) -> Any:
            if keep:
                self._update_again = partial(update_again, real, this, *arguments, **named)
            before(this, *arguments)
            result = real(this, *arguments, **named)
            after(this, *arguments)
            return result

        setattr(owner, name, wrapped)


def update_again(
    real: Callable[..., object], this: Ingest, execution: BatchExecution, *more: Any, **named: Any
) -> None:
    """An epoch's update once more, in any thread: nodes of a plan belong to the session that is active in theirs."""
    jvm = execution.session._jvm
    assert jvm is not None
    jvm.SparkSession.setActiveSession(execution.session._jsparkSession)
    real(this, execution, *more, **named)


@dataclass(frozen=True, kw_only=True)
class StruckPublisher(BlockPublisher):
    """Strikes a task when its block is published and nobody knows yet."""

    strike: Strike

    def published(self, make: Callable[[int], Accumulator | SessionMerger]) -> bytes:
        """`BlockPublisher`."""
        receipt = super().published(make)
        self.strike.in_task()
        return receipt


@dataclass(frozen=True)
class StruckOwner(AggregateRows):
    """An owner's task that is struck when its block is published and nobody knows yet."""

    strike: Strike

    def __call__(self, owner: int) -> tuple[bytes, Counter[str]]:
        """`AggregateRows`."""
        owned = super().__call__(owner)
        self.strike.in_task()
        return owned


def passed_and_strike(strike: Strike, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a merge task, which is struck when it has yielded its first ones."""
    for batch in batches:
        yield batch
        strike.in_task()


def update_and_strike(strike: Strike, value: Column, at: int) -> Column:
    """`value`, by a Python function that is struck at the row where it is `at`: in the middle of an update task."""

    def look(number: int) -> int:
        if number == at:
            strike.in_task()
        return number

    return F.udf(look, "bigint")(value)


def until_created(folder: Path, prefix: str) -> Callable[[], None]:
    """A function that returns once a file has been created in the folder, since this call, whose name begins so."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(os.O_CLOEXEC)
    if handle < 0 or libc.inotify_add_watch(handle, os.fsencode(folder), _IN_CREATE) < 0:
        raise OSError(ctypes.get_errno(), f"{folder} cannot be watched")

    def wait() -> None:
        try:
            while True:
                events, at = os.read(handle, 1 << 16), 0
                while at < len(events):
                    *_, length = _EVENT.unpack_from(events, at)
                    at += _EVENT.size + length
                    if events[at - length : at].startswith(prefix.encode()):
                        return
        finally:
            os.close(handle)

    return wait
