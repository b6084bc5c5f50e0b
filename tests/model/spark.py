"""As much of Spark as an `EpochRunner` sees: micro-batches that are replayed until they are done, tasks, a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from pyslash.agent import folding, replicate
from pyslash.checkpoint import directory
from pyslash.conf import Conf
from pyslash.errors import FencedError, SlashError
from pyslash.plan.identity import PlanIdentity
from pyslash.streaming import coordinator, durable, epoch, merging, recovery
from pyslash.tasks import fetch
from tests.model.agents import Cluster, InOrder, MemoryBus, wire_to
from tests.model.files import BlockFiles, ControlFiles
from tests.model.rows import Group, Workload, groups_of, workload
from tests.model.schedule import Kind, Schedule
from tests.model.update import QUERY, SECRET, Ingest, Owners
from tests.model.world import Driver, Injected, Violation, World

_CHECKPOINT = "model:/checkpoint"
_SWEEPS = 0.1
_TIME = TimestampType()
_RESULT = StructType(
    [
        StructField("window_start", _TIME, False),
        StructField("window_end", _TIME, False),
        *(StructField(f"result{index}", LongType(), True) for index in range(3)),
    ]
)


@dataclass(frozen=True)
class Frame:
    """A DataFrame: rows that were merged, or a micro-batch's partitions."""

    rows: Any

    @property
    def _jdf(self) -> Frame:
        return self

    @property
    def sparkSession(self) -> Frame:
        return self

    @property
    def _jsparkSession(self) -> None:
        return None


class Query:
    """A streaming query under a schedule: the same checkpoint and sink for all drivers that run it."""

    def __init__(self, schedule: Schedule, durability: str = "checkpoint", strategy: str = "merge") -> None:
        self.schedule = schedule
        self.durability, self.strategy = durability, strategy
        self.world = World(schedule)
        self.world.start_second = lambda: self._start(self._cluster())
        self.workload: Workload = workload(schedule.number)
        self.window = self.workload.window
        self.text = self.workload.plan
        self.identity = PlanIdentity(self.text, ("k", "v"))
        self.session = Frame(None)
        self.result_schema = _RESULT
        self.blocks = BlockFiles(self.world)
        self.control: dict[str, dict[str, bytes]] = {}
        self.sink: dict[int, list[Group]] = {}
        self.done = -1  # the last epoch that Spark has logged
        self.failures: list[Exception] = []
        self._attempts = 0
        self._ended: list[epoch.EpochRunner] = []  # until the hook looks after them, which is when any query starts

    def run(self) -> None:
        """Every epoch, by as many drivers as that takes.

        Raises:
            Violation: rows are lost, duplicated or wrong, or the query is stuck.
        """
        world, last = self.world, len(self.workload.epochs) - 1
        cluster = self._cluster()
        try:
            for _ in range(2 * len(self.schedule.faults) + 4):
                world.drive(self._start(cluster))
                if self.done == last:
                    break
                if world.chance.random() < 0.5:
                    self._ended.clear()
                    cluster.end()
                    cluster = self._cluster()
                else:
                    cluster.resize(world.chance.randint(1, 3))
            self._check_end(last)
        finally:
            for agent in world.agents:
                agent.close()

    def _check_end(self, last: int) -> None:
        # What is in memory alone may be lost: the query ends then, and no row that it has emitted is wrong.
        damaged = self.world.damaged or self.world.torn or self.durability == "replica"
        if self.done < last and not damaged:
            raise Violation(f"stuck after epoch {self.done}: {self.failures[-1] if self.failures else 'no failure'}")
        self.world.settle()
        for agent in self.world.agents:
            agent.check_nothing_leaked()

    def _cluster(self) -> Cluster:
        return Cluster(self.world, self.world.chance.randint(1, 3))

    def _start(self, cluster: Cluster) -> Driver:
        driver = Driver(len(self.world.drivers) + 1, cluster)
        given = {"spark.slash.durability": self.durability, "spark.slash.strategy": self.strategy}
        conf = Conf.read(given.get)
        plan: Any = self
        runner = epoch.EpochRunner(plan, self, conf, SECRET)
        self.world.run(driver, lambda: self._batches(driver, runner))
        return driver

    def _batches(self, driver: Driver, runner: epoch.EpochRunner) -> None:
        world = self.world
        batch: Any
        for number in range(self.done + 1, len(self.workload.epochs)):
            try:
                batch = Frame(number)
                runner(batch, number)
            except Exception as error:
                self._failed(driver, error)
                break
            if self._ended and world.chance.random() < _SWEEPS:
                world.say("ends queries of its application that have failed")
                self._ended.pop().end(resumable=True)
            world.point("before Spark logs the epoch")
            self.done = max(self.done, number)
            world.say(f"epoch {number} is done")
        self._ended.append(runner)

    def _failed(self, driver: Driver, error: Exception) -> None:
        self.world.say(f"fails: {type(error).__name__}: {error}")
        self.failures.append(error)
        if not isinstance(error, SlashError | Injected):
            raise Violation(f"an error that is not typed: {type(error).__name__}: {error}") from error
        if isinstance(error, FencedError) and driver.run and driver.number == self.world.newest_run[1]:
            raise Violation(f"the driver of the newest run was fenced: {error}") from error

    # What an EpochRunner asks of its plan and its sink.

    def finish(self, session: None, merged: Frame) -> Frame:
        """No projection above the aggregation."""
        return merged

    def write(self, result: Frame, number: int) -> None:
        """The sink."""
        fault = self.world.point("writes to the sink", frozenset({Kind.SINK_FAILS}))
        rows, expected = groups_of(result.rows), self.workload.epochs[number].emits
        if rows != expected:
            raise Violation(f"epoch {number} emits {rows} instead of {expected}")
        self.sink[number] = rows
        if fault is Kind.SINK_FAILS:
            raise Injected("the sink fails")
        self.world.point("has written to the sink")

    # What an EpochRunner asks of Spark.

    def execution(self, batch: Frame, owner: Frame) -> Execution:
        """`BatchExecution`."""
        return Execution(self, batch.rows)

    def files(self, session: Frame, checkpoint: str, folder: str) -> ControlFiles:
        """`checkpoint_files`."""
        return ControlFiles(self.world, self.control.setdefault(folder, {}), folder)

    def found_agents(self, *_: Any) -> list[Any]:
        """`find_agents`."""
        self.world.point("finds agents")
        return [agent.descriptor for agent in self.world.running.cluster.ensure()]

    def executors(self, *_: Any) -> int:
        """`executors`."""
        return self.world.running.cluster.size

    def ingest(self, *arguments: Any) -> Ingest:
        """`ingest_of`."""
        return Ingest(self) if self.strategy == "merge" else Owners(self, meet=arguments[-1])

    def next_attempt(self) -> int:
        """A number for each attempt of a task."""
        self._attempts += 1
        return self._attempts


@dataclass(frozen=True)
class Execution:
    """`BatchExecution`: Spark's own knowledge of the micro-batch."""

    query: Query
    epoch: int
    query_id = QUERY
    checkpoint = _CHECKPOINT

    @property
    def session(self) -> Frame:
        return self.query.session

    @property
    def watermark_us(self) -> int:
        return self.query.workload.epochs[self.epoch].before_us

    def next_watermark_us(self, current_us: int) -> int:
        return max(current_us, self.query.workload.epochs[self.epoch].latest_us - self.query.workload.delay_us)


@contextmanager
def installed(query: Query) -> Iterator[None]:
    """The model's Spark, wire and file systems in the place of the real ones."""
    world = query.world
    replaced: list[tuple[Any, str, Any]] = [
        (epoch, "BatchExecution", query.execution),
        (recovery, "checkpoint_files", query.files),
        (recovery, "find_agents", query.found_agents),
        (recovery, "executors", query.executors),
        (epoch, "ingest_of", query.ingest),
        (epoch, "DataFrame", lambda finished, session: finished),
        (merging, "_local", lambda session, rows, plan: Frame(rows)),
        (fetch, "choose_transport", lambda *_: MemoryBus(world)),
        (coordinator, "AgentClient", wire_to(world)),
        (replicate, "AgentClient", wire_to(world)),
        (replicate, "choose_transport", lambda *_: MemoryBus(world)),
        (coordinator, "ThreadPoolExecutor", lambda *_, **__: InOrder(world)),
        (directory, "open_location", lambda location: (query.blocks, location)),
        # Small, so that snapshots and compactions are part of every run.
        (durable, "MOST_FILES", 2),
        (folding, "MAX_BLOCKS", 2),
    ]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(patch.object(owner, name, value))
        yield


def violation(
    schedule: Schedule,
    then: Callable[[Query], None] = lambda query: None,
    durability: str = "checkpoint",
    strategy: str = "merge",
) -> Violation | None:
    """What a run breaks, if anything; its trace is the note that comes with it."""
    query = Query(schedule, durability, strategy)
    found = None
    with installed(query):
        try:
            query.run()
        except Violation as broken:
            broken.add_note("\n".join(query.world.trace))
            found = broken
    then(query)
    return found
