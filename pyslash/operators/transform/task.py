"""The task that runs a user's processor over the rows of some homes, and writes state and rows as a block."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from pyslash._native import Accumulator
from pyslash.emit.merge import MergeRequest
from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.operators.transform.client import StateClient
from pyslash.operators.transform.frame_conf import FrameConf
from pyslash.operators.transform.function import FRAMES, ROWS, UserFunction
from pyslash.operators.transform.processor import Calls, RowCalls
from pyslash.operators.transform.rows import Given, HomeRows, InputRows, InputShape, in_parts
from pyslash.operators.transform.state.home import HOMES, Home
from pyslash.operators.transform.state.values import RowForm

RESULT = "receipt binary, rows bigint, late bigint, keys bigint, updated bigint, given bigint"
_TIME = pa.timestamp("us", "UTC")
_MANY_OBJECTS = 50_000
_TASKS_A_SEARCH = 32
_TASKS = count(1)  # of this process
_PART_BYTES = 64 << 20  # of keys and what they have: an Arrow array has room for 2 GiB


@dataclass(frozen=True)
class Times:
    """Of a micro-batch, in milliseconds; `mode` is Spark's name of what timers go by."""

    mode: str
    batch_ms: int
    watermark_ms: int


@dataclass(frozen=True)
class Places:
    """`tasks` share `homes`, whose state before the epoch lies in panes from `before` on, and after it from `after` on.
    `rows` is the pane of what the processor gives.
    """

    homes: int
    tasks: int
    before: int
    after: int
    rows: int

    def of(self, task: int) -> range:
        """A task's homes, as the JVM's `HomeTasks` divides them."""
        return range(task * self.homes // self.tasks, (task + 1) * self.homes // self.tasks)


@dataclass(frozen=True)
class Transform:
    """A function for `mapInArrow` over the rows of homes: one row of `RESULT` a task.

    `function` is the user's, `frames` are the settings of the frames that it takes and gives. `state` names all live
    blocks. `dropped` are variables whose state is deleted. Homes of more than `home_bytes` are not kept for the next
    epoch.
    """

    update: BlockPublisher
    function: UserFunction
    frames: FrameConf
    shape: InputShape
    times: Times
    places: Places
    state: MergeRequest
    dropped: tuple[str, ...]
    home_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in the executor.

        Raises:
            Exception: the user's processor has raised it.
            SlashError: as `Settle`.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        epoch = _TaskEpoch(self, context.partitionId())
        with _less_collected():
            receipt = self.update.sealed(lambda accumulator: epoch.run(batches, accumulator))
        counts = [epoch.input.rows, epoch.input.late, epoch.keys, epoch.updated, epoch.given.rows]
        columns = [pa.array([receipt], pa.binary()), *(pa.array([count], pa.int64()) for count in counts)]
        yield pa.record_batch(columns, names=["receipt", "rows", "late", "keys", "updated", "given"])


@contextmanager
def _less_collected() -> Iterator[None]:
    """Rows are made by the thousand: what there is by now is not searched for garbage, and what is new only once it is
    much. PySpark's daemon searches after each task; once in many it finds all that there is.
    """
    young, *older = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young and max(young, _MANY_OBJECTS), *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)
        if next(_TASKS) % _TASKS_A_SEARCH == 0:
            gc.unfreeze()


class _TaskEpoch:
    """One run of a task."""

    def __init__(self, order: Transform, task: int) -> None:
        self._order = order
        self._task = task
        function = order.function
        schemas = {schema for one in function.variables for schema in (one.value, one.key) if schema}
        self._forms = {schema: RowForm(parsed(schema)) for schema in {function.key_schema, *schemas}}
        self._calls = _calls(order, self._forms)
        self.input = InputRows(order.shape)
        self.given = Given(parsed(function.given_schema))
        self.keys = 0
        self.updated = 0

    def run(self, batches: Iterable[pa.RecordBatch], accumulator: Accumulator) -> None:
        """Call the user's function for each home; what it gives, and the state that it changes, are added."""
        places = self._order.places
        homes = iter(places.of(self._task))
        for number, parts in groupby(self.input.of(batches), key=itemgetter(0)):
            for without_rows in iter(lambda: next(homes), number):
                self._home(without_rows, None, accumulator)
            self._home(number, HomeRows.of((is_initial, rows) for _, is_initial, rows in parts), accumulator)
        for without_rows in homes:
            self._home(without_rows, None, accumulator)
        for at, stream in enumerate(self.given.packed()):
            name = self._task.to_bytes(4, "big") + at.to_bytes(4, "big")
            add_entries(accumulator, places.rows, [(name, stream)])

    def _home(self, number: int, rows: HomeRows | None, accumulator: Accumulator) -> None:
        order, places = self._order, self._order.places
        home = HOMES.of(order.state, number, places.before + number)
        key_form = self._forms[order.function.key_schema]
        client = StateClient(
            home, key_form, order.times.mode, order.times.batch_ms, order.times.watermark_ms, order.dropped
        )
        if rows is not None or home.timers or home.expiries:
            self._calls.over(client, rows or HomeRows.of(iter(())), self.given)
        changes = dict(client.changes())
        self.updated += len(changes)
        if places.before != places.after:
            changes = {key: kept for key, kept in (client.whole() | changes).items() if kept}
            self.keys += len(changes)
        else:
            self.keys += len(home.kept) + _growth(home, changes)
        add_entries(accumulator, places.after + number, changes.items())
        HOMES.keep_within(order.home_bytes)


def _calls(order: Transform, forms: dict[str, RowForm]) -> Calls:
    function, shape = order.function, order.shape
    if function.takes == ROWS:
        return RowCalls(function, forms, shape, order.frames.most_rows)
    # Not before: they need pandas, and what PySpark has from 4.3 on.
    from pyslash.operators.transform.frames import FrameCalls, FrameForm
    from pyslash.operators.transform.group_state import GroupStateCalls

    frames = FrameForm(order.frames, parsed(function.given_schema))
    if function.takes == FRAMES:
        return FrameCalls(function, forms, shape, frames)
    columns = to_arrow_type(
        parsed(function.input_schema), timezone=frames.conf.time_zone, prefers_large_types=frames.conf.large_types
    )
    (state,) = function.variables
    return GroupStateCalls(
        function.command, parsed(state.value), shape, pa.schema(list(columns)), frames, order.times.mode
    )


def parsed(schema: str) -> StructType:
    """A schema out of Spark's JSON."""
    return StructType.fromJson(json.loads(schema))


def _growth(home: Home, changes: dict[bytes, bytes]) -> int:
    """How many keys more have state."""
    return sum(bool(kept) - (key in home.kept) for key, kept in changes.items())


def add_entries(accumulator: Accumulator, pane: int, entries: Iterable[tuple[bytes, bytes]]) -> None:
    """Keys of a pane, and the bytes that each has."""
    for part in in_parts(entries, lambda entry: len(entry[0]) + len(entry[1]), _PART_BYTES):
        columns = [
            pa.repeat(pa.scalar(pane, pa.int64()), len(part)).cast(_TIME),
            pa.array([key for key, _ in part], pa.binary()),
            pa.array([value for _, value in part], pa.binary()),
        ]
        accumulator.add(pa.record_batch(columns, names=["time", "key", "value"]))
