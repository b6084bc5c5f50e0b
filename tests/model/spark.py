"""As much of Spark as an `EpochRunner` sees: a stream execution with its two logs, micro-batches, tasks, a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from pyslash.agent import replicate
from pyslash.agent.compaction import folding
from pyslash.agent.store import spill
from pyslash.cluster import coordinator
from pyslash.conf import Conf
from pyslash.driver import epoch
from pyslash.driver.ports import Ports
from pyslash.driver.restart import recovery
from pyslash.emit import fetch, merging
from pyslash.errors import FencedError, RewoundCheckpointError, SlashError, StateLostError
from pyslash.plan.change.evolution import Evolution
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.emission import Emission
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.spec import PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.state import durable
from pyslash.state.durable import DurableState, Replacement
from pyslash.state.files import directory
from pyslash.state.files.directory import BlockFile
from tests.model.agents import Cluster, InOrder, MemoryBus, wire_to
from tests.model.batch import Entry, Frame, MicroBatch, TaskMerge
from tests.model.files import BlockFiles, ControlFiles, NoBackfills
from tests.model.rows import Group, State, Workload, groups_of, workload
from tests.model.schedule import OF_LOGS, Kind, Schedule
from tests.model.update import SECRET, Ingest, Owners
from tests.model.world import Driver, Injected, Violation, World

_SWEEPS = 0.1
_STEPS = 0.3
_SLOW = 0.5
_REFUSES = 0.1  # chance that agents write no snapshot beside epochs from now on
_NOTHING_NEW = 0.25
_COPIES = 0.3
_TIME = TimestampType()
_RESULT = StructType(
    [
        StructField("window_start", _TIME, False),
        StructField("window_end", _TIME, False),
        *(StructField(f"result{index}", LongType(), True) for index in range(3)),
    ]
)


@dataclass(frozen=True)
class Operator:
    """`AggregationPlan` of one version of the query."""

    node = "StateStoreSaveExec"

    spec: PlanSpec
    version: int
    result_schema = _RESULT
    windows_truncated = False
    stands_on_others = False
    input_columns = ""
    first_batch = ()
    is_adopted = False
    folds_buffers = False
    emitted = ()

    @property
    def window(self) -> TimeWindow:
        """The plan's."""
        return self.spec.window

    @property
    def text(self) -> str:
        """The plan's."""
        return self.spec.text

    @property
    def of_rows(self) -> Operator:
        """It has no second step."""
        return self

    def evolved(self, evolution: Evolution) -> Operator:
        """Its aggregates never change."""
        assert evolution.plan == self.identity
        return self

    @property
    def emission(self) -> Emission:
        """In append mode, with a key."""
        return Emission(OutputMode.APPEND, self.window, True)

    @property
    def fingerprint(self) -> str:
        """Of its filter."""
        return f"filter {self.version}"

    @property
    def identity(self) -> PlanIdentity:
        """A repair changes none of it."""
        return PlanIdentity(self.spec, ("k", "v"))


@dataclass(frozen=True)
class Copy:
    """The checkpoint as it was at a moment, and what the oracle knew by then."""

    control: dict[str, dict[str, bytes]]
    blocks: dict[str, bytes]
    torn: set[str]
    entries: dict[int, Entry]
    commits: dict[int, int]
    states: dict[int, State]
    executed_by_spark: dict[int, bool]

    @classmethod
    def of(cls, query: Query) -> Copy:
        """As it is now."""
        return cls(
            {folder: dict(files) for folder, files in query.control.items()},
            dict(query.blocks.files),
            set(query.world.torn),
            dict(query.entries),
            dict(query.commits),
            dict(query.states),
            dict(query.executed_by_spark),
        )

    def put_back(self, query: Query) -> None:
        """In the place of what is there. Spark has forgotten the batches after it, and gives others."""
        for folder, files in query.control.items():
            files.clear()
            files.update(self.control.get(folder, {}))
        query.blocks.files = dict(self.blocks)
        query.world.torn = set(self.torn)
        query.entries, query.commits = dict(self.entries), dict(self.commits)
        query.states, query.executed_by_spark = dict(self.states), dict(self.executed_by_spark)
        query.forget_rows(max(self.commits, default=-1) + 1)
        query.is_finished = False


class ConcurrentQuery(Exception):
    """Spark's own error: another driver has written the entry of one of its logs."""


class BackgroundTask:
    """Without a thread."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._awake = False

    def wake(self) -> None:
        self._awake = True

    def close(self) -> None:
        self._awake = False

    def step(self) -> None:
        """Once, if there is something to do; nobody hears of its failure."""
        if self._awake:
            try:
                self._awake = self._step()
            except Exception:
                self._awake = False


class Query:
    """A streaming query under a schedule: the same checkpoint and sink for all drivers that run it."""

    def __init__(
        self, schedule: Schedule, durability: str = "checkpoint", strategy: str = "merge", mode: str = "require"
    ) -> None:
        self.schedule = schedule
        self.durability, self.strategy, self.mode = durability, strategy, mode
        self.world = World(schedule)
        self.world.start_second = lambda: self._start(self._cluster())
        self.workload: Workload = workload(schedule.number)
        self.version = 0
        self.is_function = self.world.chance.random() < 0.5  # the sink: a foreachBatch function, or one of Spark's
        self.merges_in_tasks = self.world.chance.random() < 0.4
        self.folds = self.world.chance.random() < 0.5
        self.blocks = BlockFiles(self.world)
        self.control: dict[str, dict[str, bytes]] = {}
        self.sink: dict[tuple[int, int], list[Group]] = {}  # by epoch and version of the query
        self.calls: set[tuple[int, int]] = set()  # (driver, epoch) that a foreachBatch function was called for
        self.entries: dict[int, Entry] = {}  # of Spark's offset log
        self.commits: dict[int, int] = {}  # Spark's commit log: the watermark after the batch
        self.states = {-1: State()}  # of the oracle, after each batch that is committed
        self.executed_by_spark: dict[int, bool] = {}  # each batch that is committed
        self.copies: list[Copy] = []
        self.is_finished = False  # a driver has found nothing more to do
        self.late_rows = 0
        self.executors_at_first = 0
        self.failures: list[Exception] = []
        self._attempts = self._clock = 0
        self._background_tasks: dict[tuple[int, str], BackgroundTask] = {}  # of drivers, by what they do
        self._raised: dict[int, Exception] = {}  # by a driver's foreachBatch function
        self._batches: dict[int, MicroBatch] = {}  # that drivers are at
        self._ended: list[epoch.EpochRunner] = []  # until the hook looks after them, which is when any query starts

    def run(self) -> None:
        """Every epoch, by as many drivers as that takes.

        Raises:
            Violation: rows are lost, duplicated or wrong, or the query is stuck.
        """
        world = self.world
        cluster = self._cluster()
        self.executors_at_first = cluster.size
        try:
            for _ in range(2 * len(self.schedule.faults) + 4):
                world.drive(self._start(cluster))
                if self.is_finished and not world.awaits(Kind.PUT_BACK):
                    break
                if world.chance.random() < 0.5:
                    self._ended.clear()
                    cluster.end()
                    cluster = self._cluster()
                else:
                    cluster.resize(world.chance.randint(1, 3))
            self._check_end()
        finally:
            for agent in world.agents:
                agent.close()

    def _check_end(self) -> None:
        # What is in memory alone may be lost: the query ends then, and no row that it has emitted is wrong.
        may_end = self.world.damaged or self.world.torn or self.durability == "replica"
        if OF_LOGS & set(self.world.struck) and self.failures:
            may_end = may_end or isinstance(self.failures[-1], RewoundCheckpointError | StateLostError)
        if not self.is_finished and not may_end:
            last = max(self.commits, default=-1)
            raise Violation(f"stuck after epoch {last}: {self.failures[-1] if self.failures else 'no failure'}")
        self.world.settle()
        for agent in self.world.agents:
            agent.check_nothing_leaked()

    def _cluster(self) -> Cluster:
        return Cluster(self.world, self.world.chance.randint(1, 3))

    def _start(self, cluster: Cluster) -> Driver:
        driver = Driver(len(self.world.drivers) + 1, cluster)
        self.world.run(driver, lambda: self._stream(driver))
        return driver

    def _stream(self, driver: Driver) -> None:
        """A driver's life: `MicroBatchExecution`."""
        self._befall_logs(driver)
        given = {
            "spark.slash.mode": self.mode,
            "spark.slash.durability": self.durability,
            "spark.slash.strategy": self.strategy,
            "spark.slash.fold.blocks": "1" if self.folds else "0",
            **({"spark.slash.merge.driverBytes": "0"} if self.merges_in_tasks else {}),
        }
        version = self.version
        operator: Any = Operator(PlanSpec.decode(self.workload.plan), version)
        sink: Any = self
        runner = epoch.EpochRunner([operator], sink, Conf.read(given.get), SECRET, self._batch, ports=self._ports())
        try:
            self._micro_batches(driver, runner, version)
        except ConcurrentQuery as error:
            self.world.say(f"fails: {error}")
            self.failures.append(error)
        except Exception as error:
            self._failed(driver, error)
        self._ended.append(runner)

    def _befall_logs(self, driver: Driver) -> None:
        """What may have become of the query and of Spark's logs while no driver ran."""
        last, world = max(self.entries, default=-1), self.world
        if any(not other.ended for other in world.drivers if other is not driver) or last < 0:
            return
        possible = {
            Kind.REPAIRED: True,
            Kind.REWOUND: bool(self.commits),
            Kind.OFFSETS_LOST: last not in self.commits,
            Kind.PUT_BACK: bool(self.copies),
        }
        fault = world.point("starts the query", frozenset(kind for kind, may in possible.items() if may))
        if fault is Kind.REPAIRED:
            self.version += 1
        elif fault is Kind.PUT_BACK:
            world.chance.choice(self.copies).put_back(self)
        elif fault is not None:
            first = last if fault is Kind.OFFSETS_LOST else max(self.commits)
            for number in range(first, last + 1):
                del self.entries[number]
                del self.control["offsets"][str(number)]
                self.commits.pop(number, None)
            self.forget_rows(first)

    def forget_rows(self, first: int) -> None:
        """From this batch on, Spark knows nothing of what it has written, and writes others."""
        self.sink = {key: rows for key, rows in self.sink.items() if key[0] < first}

    def _copy(self) -> None:
        """Somebody may copy the checkpoint."""
        if self.world.chance.random() < _COPIES:
            self.copies.append(Copy.of(self))

    def _micro_batches(self, driver: Driver, runner: epoch.EpochRunner, version: int) -> None:
        world = self.world
        number = max(self.entries, default=0)
        if number in self.commits:
            number += 1
        entry = self.entries.get(number)  # an earlier driver has begun it, with these offsets
        watermark = self.commits.get(number - 1, 0)
        evicted: int | None = None  # by this driver's last batch
        while True:
            if entry is None:
                start = self.entries[number - 1].end if number else 0
                end = self._available(start)
                moved = evicted is not None and watermark > evicted
                if start == end == len(self.workload.arrivals) and not moved:
                    self.is_finished = True
                    return
                if start == end and not moved:
                    continue
                entry = self._log_offsets(number, Entry(start, end, watermark, self._now()))
            late = self.entries[number - 1].watermark_us if number else 0
            batch = self._batches[driver.number] = MicroBatch(self, driver, number, entry, late, version)
            world.say(f"runs {batch}")
            frame: Any = batch.on_spark()
            runner(frame, number)
            if driver.number in self._raised:
                raise Violation(f"the function's error is swallowed: {self._raised[driver.number]}")
            watermark, evicted = batch.check_ended(), entry.watermark_us
            if self._ended and world.chance.random() < _SWEEPS:
                world.say("ends queries of its application that have failed")
                self._ended.pop().end(resumable=True)
            self.keep()
            world.point("before Spark logs the epoch")
            self._commit(batch, watermark, runner)
            number, entry = number + 1, None

    def _available(self, start: int) -> int:
        """How far the source has come."""
        chance = self.world.chance
        more = 0 if chance.random() < _NOTHING_NEW else chance.randint(1, 2)
        return min(start + more, len(self.workload.arrivals))

    def _now(self) -> int:
        self._clock += 1000
        return self._clock

    def _log_offsets(self, number: int, entry: Entry) -> Entry:
        self.world.point("before Spark logs the offsets")
        if number in self.entries:
            raise ConcurrentQuery(f"another driver has logged the offsets of batch {number}")
        self.entries[number] = entry
        self.control.setdefault("offsets", {})[str(number)] = entry.encode()
        self._copy()
        return entry

    def _commit(self, batch: MicroBatch, watermark: int, runner: epoch.EpochRunner) -> None:
        number = batch.number
        if number in self.commits:
            raise ConcurrentQuery(f"another driver has logged batch {number} as done")
        self.commits[number] = watermark
        self.states[number] = batch.due.state
        self.late_rows += batch.due.late_rows
        self.executed_by_spark[number] = runner.is_left_to_spark
        self.world.say(f"epoch {number} is done")
        self._copy()

    def _failed(self, driver: Driver, error: Exception) -> None:
        self.world.say(f"fails: {type(error).__name__}: {error}")
        self.failures.append(error)
        raised = self._raised.get(driver.number)
        if raised is not None and error is not raised:
            raise Violation(f"the function raised {raised!r}, and the query {error!r}") from error
        if not isinstance(error, SlashError | Injected):
            raise Violation(f"an error that is not typed: {type(error).__name__}: {error}") from error
        if isinstance(error, FencedError) and driver.run and driver.number == self.world.newest_run[1]:
            raise Violation(f"the driver of the newest run was fenced: {error}") from error
        # Of two drivers on one checkpoint, one may run a batch that the other has finished meanwhile.
        batch = self._batches.get(driver.number)
        is_overtaken = batch is not None and batch.number in self.commits
        is_rewound = is_overtaken or self.world.damaged or OF_LOGS & set(self.world.struck)
        if isinstance(error, RewoundCheckpointError) and not is_rewound:
            raise Violation(f"nobody has rewound or damaged anything: {error}") from error

    # The sink.

    @property
    def repeats(self) -> bool:
        """See `Sink`."""
        return not self.is_function

    def write(self, result: Frame, number: int) -> None:
        """A foreachBatch function, whose error is the query's, or a sink of Spark's."""
        driver = self.world.running
        try:
            self._write(driver, self._batches[driver.number], result, number)
        except Exception as error:
            if self.is_function:
                self._raised[driver.number] = error
            raise

    def _write(self, driver: Driver, batch: MicroBatch, result: Frame, number: int) -> None:
        if self.is_function:
            if (driver.number, number) in self.calls:
                raise Violation(f"the function is called again for epoch {number}")
            self.calls.add((driver.number, number))
        if number and result.by_spark is not self.executed_by_spark[number - 1]:
            raise Violation(f"epoch {number} is executed with state that the epochs before have left elsewhere")
        fault = self.world.point("writes to the sink", frozenset({Kind.SINK_FAILS}))
        rows = result.rows()
        if rows != batch.due.emits:
            raise Violation(f"{batch} emits {rows} instead of {batch.due.emits}")
        before = self.sink.setdefault((number, batch.version), rows)
        if rows != before:
            raise Violation(f"{batch} emits {rows}, and has emitted {before} before")
        if fault is Kind.SINK_FAILS:
            raise Injected("the sink fails")
        self.world.point("has written to the sink")

    # What an EpochRunner asks of Spark besides.

    def _batch(self, _: Any) -> MicroBatch:
        """The one that the running driver is at."""
        return self._batches[self.world.running.number]

    def _ports(self) -> Ports:
        """The model's executors, wire, files, jobs and clock."""
        given: dict[str, Any] = {
            "files": self.files,
            "backfills": lambda checkpoint: NoBackfills(),
            "executors": self.executors,
            "find_agents": self.found_agents,
            "client": wire_to(self.world),
            "pool": lambda *_, **__: InOrder(self.world),
            "ingest": self.ingest,
            "background_task": self.background_task,
            "next_run": self.world.next_run,
            "seconds": self.world.seconds,
        }
        return Ports(**given)

    def files(self, session: Any, checkpoint: str, folder: str) -> ControlFiles:
        """`checkpoint_files`."""
        return ControlFiles(self.world, self.control.setdefault(folder, {}), folder)

    def found_agents(self, *_: Any) -> list[Any]:
        """`find_agents`."""
        self.world.point("finds agents")
        return [agent.descriptor for agent in self.world.running.cluster.ensure()]

    def begun(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        """`Recovery.begin`, and what may happen just after it."""

        def begun(*arguments: Any) -> Any:
            state, figures = begin(*arguments)
            if state.coordinator.agents and state.last is not None:
                fault = self.world.point("goes on from memory", frozenset({Kind.RECOVERED_DIES}))
                if fault is not None and (agents := self.world.running.cluster.agents()):
                    self.world.chance.choice(agents).die()
            return state, figures

        return begun

    def executors(self, *_: Any) -> int:
        """`executors`."""
        return self.world.running.cluster.size

    def ingest(self, *arguments: Any) -> Ingest:
        """`ingest_of`."""
        return Ingest(self) if self.strategy == "merge" else Owners(self, add_agents=arguments[-1])

    def background_task(self, step: Callable[[], bool], name: str, _: object) -> BackgroundTask:
        """`BackgroundTask`: of each name the driver's newest one."""
        made = self._background_tasks[self.world.running.number, name] = BackgroundTask(step)
        return made

    def keep(self) -> None:
        """A step of the driver's background task may fall between two others of its query, but is not cut by them."""
        for (driver, _), task in list(self._background_tasks.items()):
            if driver == self.world.running.number and self.world.chance.random() < _STEPS:
                task.step()

    def next_attempt(self) -> int:
        """A number for each attempt of a task."""
        self._attempts += 1
        return self._attempts


@contextmanager
def installed(query: Query) -> Iterator[None]:
    """What the driver has no port for: how blocks are read and written, and what an agent calls."""
    world = query.world
    replaced: list[tuple[Any, str, Any]] = [
        (recovery.Recovery, "begin", query.begun(recovery.Recovery.begin)),
        (merging.Merging, "_local", lambda merging, session, rows: Frame(lambda: groups_of(rows))),
        (merging, "JvmBridge", lambda session: SimpleNamespace(java=SimpleNamespace(takesMerged=lambda: True))),
        (merging, "ColumnMerge", TaskMerge),
        (fetch, "choose_transport", lambda *_: MemoryBus(world)),
        (replicate, "AgentClient", wire_to(world)),
        (replicate, "choose_transport", lambda *_: MemoryBus(world)),
        (directory, "open_location", lambda location: (query.blocks, location)),
        (coordinator, "_told", {}),  # not of other runs of the model, in this process
        # Small, so that compactions, and snapshots or folds of files, are part of every run.
        (durable, "MOST_FILES", 2 + query.world.number % 2 * 3),
        (durable, "MOST_SMALL", 2),
        (durable, "_AT_LAST", 1),
        *_files_that_take_time(world),
        (spill, "write", _written_while_others_work(world, spill.write)),
        (folding, "MAX_BLOCKS", 2),
    ]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(patch.object(owner, name, value))
        yield


def _files_that_take_time(world: World) -> list[tuple[Any, str, Any]]:
    """What is written beside epochs may be ready long after what it has; its agent writes nothing else meanwhile."""
    ready, snapshots, folds = DurableState.replace, DurableState.want_snapshots, DurableState.want_folds
    pending: set[tuple[int, str]] = set()

    def replace(state: DurableState, one: Replacement) -> None:
        of = id(state), one.file.holder

        def done() -> None:
            pending.discard(of)
            ready(state, one)

        pending.add(of)
        if world.chance.random() < _SLOW:
            world.later("a file is ready", done)
        else:
            done()

    def want_snapshots(state: DurableState) -> list[str]:
        if world.chance.random() < _REFUSES:
            state.refused.update(file.holder for file in state.files)
        return [holder for holder in snapshots(state) if (id(state), holder) not in pending]

    def want_folds(state: DurableState) -> dict[str, list[BlockFile]]:
        return {holder: files for holder, files in folds(state).items() if (id(state), holder) not in pending}

    return [
        (DurableState, "replace", replace),
        (DurableState, "want_snapshots", want_snapshots),
        (DurableState, "want_folds", want_folds),
    ]


def _written_while_others_work(world: World, write: Callable[..., Any]) -> Callable[..., Any]:
    """A block goes to disk without a lock: what agents do by themselves falls before and behind that."""

    def written(directory: str, pieces: list[Any]) -> Any:
        world.point("writes a block to its disk")
        data = write(directory, pieces)
        world.point("has written a block to its disk")
        return data

    return written


def violation(
    schedule: Schedule,
    then: Callable[[Query], None] = lambda query: None,
    durability: str = "checkpoint",
    strategy: str = "merge",
    mode: str = "require",
) -> Violation | None:
    """What a run breaks, if anything; its trace is the note that comes with it."""
    query = Query(schedule, durability, strategy, mode)
    found = None
    with installed(query):
        try:
            query.run()
        except Violation as broken:
            broken.add_note("\n".join(query.world.trace))
            found = broken
    then(query)
    return found
