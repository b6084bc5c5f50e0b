"""Processors for `transformWithState` whose calls follow from a seed and from their rows, whatever engine runs them.

Classes are local to functions: PySpark then sends them to its workers whole, and not as a name in a module of tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.streaming import StatefulProcessor

from pyslash.spark.release import is_from

OUTPUT = "k string, did string, gave string"
HOURS_MS = 36_000_000
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
# Plain Spark plans processors over this store alone.
STORE = {PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
# Whether pyslash runs them on this release.
COVERED = is_from(4, 3)
WHY_NOT = "pyslash runs processors from Spark 4.3 on"
# The marks of tests of them in tests/streaming.
PROCESSORS = [pytest.mark.skipif(not COVERED, reason=WHY_NOT), pytest.mark.usefixtures("processor_store")]


def without_rows(are: bool) -> dict[str, str]:
    """Whether Spark runs micro-batches without rows: for timers by a clock it does, without end."""
    return {"spark.sql.streaming.noDataMicroBatches.enabled": str(are).lower()}


def transformed(
    rows: DataFrame,
    processor: StatefulProcessor,
    time_mode: str,
    output: str = OUTPUT,
    initial: GroupedData | None = None,
) -> DataFrame:
    """The rows that a processor gives, by `k`."""
    return rows.groupBy("k").transformWithState(processor, output, "Append", time_mode, initial)


def counting() -> StatefulProcessor:
    """Gives the number and the sum of the rows of a key, after each micro-batch."""

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("counted", "rows long, total long")

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            count, total = self.state.get() or (0, 0)
            self.state.update((count + 1000, total + (initialState.v or 0)))

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            count, total = self.state.get() or (0, 0)
            for row in rows:
                count, total = count + 1, total + (row.v or 0)
            self.state.update((count, total))
            yield Row(k=key[0], did="count", gave=f"{count} {total}")

    return Counting()


def numbering(count: int) -> StatefulProcessor:
    """Gives so many rows for a key in each micro-batch, numbered."""

    class Numbering(StatefulProcessor):
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            for _ in rows:
                pass
            for number in range(count):
                yield Row(k=repr(key[0]), did="row", gave=str(number))

    return Numbering()


def waking() -> StatefulProcessor:
    """Registers timers, and deletes some, by the integers of NumPy, and lists them."""

    class Waking(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            import numpy
            from pyspark.sql import Row

            newest = max((row.ts.timestamp() for row in rows if row.ts is not None), default=None)
            if newest is not None:
                first = numpy.int64(int(newest * 1000) + 5000)
                for after in (0, 1000, 2000):
                    self.handle.registerTimer(first + after)
                self.handle.deleteTimer(first + 1000)
            yield Row(k=key[0], did="rows", gave=str(sorted(self.handle.listTimers())))

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            yield Row(k=key[0], did="timer", gave=str(expiredTimerInfo.getExpiryTimeInMs()))

    return Waking()


def counted_by_time(rows: DataFrame) -> DataFrame:
    """Of each `k` in each micro-batch: its newest `ts`, and how many rows, and which sum of `v`, it has had so far."""

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("counted", "rows long, total long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            count, total = self.state.get() or (0, 0)
            times = []
            for row in rows:
                count, total = count + 1, total + (row.v or 0)
                times.append(row.ts)
            self.state.update((count, total))
            newest = max((time for time in times if time is not None), default=None)
            if newest is not None:
                yield Row(ts=newest, k=key[0], n=count, total=total)

    schema = "ts timestamp, k long, n long, total long"
    return rows.groupBy("k").transformWithState(Counting(), schema, "Append", "EventTime", eventTimeColumnName="ts")


def program(seed: int, time_mode: str) -> StatefulProcessor:
    """Reads and writes variables of all kinds, and timers, as a generator with this seed has it for a key's rows."""

    class Program(StatefulProcessor):
        def init(self, handle: Any) -> None:
            # Of a microsecond's life and of hours: whether a value has expired depends on no clock then.
            lives = [None, 1, 36_000_000] if time_mode == "ProcessingTime" else [None, None, None]
            self.handle = handle
            self.values = [
                handle.getValueState(f"value{at}", "n long, s string, d double, b boolean", life)
                for at, life in enumerate(lives)
            ]
            self.lists = [handle.getListState(f"list{at}", "x int, y string", life) for at, life in enumerate(lives)]
            self.maps = [
                handle.getMapState(f"map{at}", "u string, i int", "w double, t date", life)
                for at, life in enumerate(lives)
            ]

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            from random import Random

            self.told = [*self.run(key, Random(f"{seed} {key[0]} {initialState.v}"), timerValues, "initial")]

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from random import Random

            given = [row.v for row in rows]
            yield from self.run(key, Random(f"{seed} {key[0]} {given}"), timerValues, "rows")

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            from random import Random

            fired = expiredTimerInfo.getExpiryTimeInMs()
            since = self.now(timerValues) - fired
            # What a clock says differs from run to run.
            at = fired if time_mode == "EventTime" else "now" if since == 0 else "before"
            yield from self.run(key, Random(f"{seed} {key[0]} {at}"), timerValues, f"timer {at}")

        def now(self, times: Any) -> int:
            if time_mode == "EventTime":
                return times.getCurrentWatermarkInMs()
            return times.getCurrentProcessingTimeInMs()

        def run(self, key: Any, random: Any, times: Any, why: str) -> Iterator[Any]:
            from pyspark.sql import Row

            for _ in range(random.randrange(1, 9)):
                what = random.choice([self.value, self.list, self.map, self.timer])
                did, gave = what(random, times)
                yield Row(k=key[0], did=f"{why}: {did}", gave=repr(gave))

        def value(self, random: Any, times: Any) -> tuple[str, Any]:
            at = random.randrange(3)
            state = self.values[at]
            call = random.choice(["get", "get", "exists", "update", "update", "update", "clear"])
            if call != "update":
                return f"{call} {at}", getattr(state, call)()
            row = (
                random.choice([None, random.randrange(-9, 9), 1 << 70, True]),
                random.choice([None, "", "ä", 7, False]),
                random.choice([None, 0.5, -0.0, 3]),
                random.choice([None, True, 0]),
            )
            return f"update {at} {row}", state.update(row)

        def list(self, random: Any, times: Any) -> tuple[str, Any]:
            at = random.randrange(3)
            state = self.lists[at]
            call = random.choice(["get", "get", "exists", "appendValue", "appendValue", "appendList", "put", "clear"])
            if call == "get":
                return f"list get {at}", [*state.get()]
            if call in ("exists", "clear"):
                return f"list {call} {at}", getattr(state, call)()
            if call == "appendValue":
                return f"append {at}", state.appendValue((random.randrange(9), "b"))
            # Spark's server does not answer any more when it is given an empty list.
            rows = [(random.randrange(1 << 33), random.choice(["a", None])) for _ in range(random.randrange(1, 3))]
            return f"{call} {at} {rows}", getattr(state, call)(rows)

        def map(self, random: Any, times: Any) -> tuple[str, Any]:
            from datetime import date

            at = random.randrange(3)
            state = self.maps[at]
            key = (random.choice(["x", "longer than eight", None]), random.choice([1, -1, 256]))
            call = random.choice(
                [
                    *("getValue", "containsKey", "updateValue", "updateValue", "updateValue", "removeKey"),
                    *("exists", "iterator", "keys", "values", "clear"),
                ]
            )
            if call == "updateValue":
                row = (random.choice([None, 1.5]), random.choice([None, date(2026, 1, random.randrange(1, 28))]))
                return f"map update {at} {key}", state.updateValue(key, row)
            if call in ("getValue", "containsKey", "removeKey"):
                return f"map {call} {at} {key}", getattr(state, call)(key)
            found = getattr(state, call)()
            return f"map {call} {at}", [*found] if call in ("iterator", "keys", "values") else found

        def timer(self, random: Any, times: Any) -> tuple[str, Any]:
            if time_mode == "None":
                return "no timer", times.getCurrentWatermarkInMs()
            now = self.now(times)
            steps = [-1000, 0, 1, 5000, 20_000] if time_mode == "EventTime" else [0, 1, 36_000_000]
            step = random.choice(steps)
            call = random.choice(["register", "register", "delete", "list"])
            if call == "register":
                return f"register {step}", self.handle.registerTimer(now + step)
            if call == "delete":
                return f"delete {step}", self.handle.deleteTimer(now + step)
            timers = [time - now for time in self.handle.listTimers()]
            return "timers", timers if time_mode == "EventTime" else len(timers)

    return Program()


def remembering() -> StatefulProcessor:
    """Keeps what it has seen of a key in variables of each kind until a timer of event time clears some keys.

    What it gives does not depend on the order of a key's rows. No key has a timer of the same time twice.
    """

    class Remembering(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.counted = handle.getValueState("counted", "rows long, total long")
            self.greatest = handle.getListState("greatest", "v long")
            self.names = handle.getMapState("names", "s string", "rows long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            values = []
            for row in rows:
                values.append(row.v)
                seen = self.names.getValue((row.s,))[0] if self.names.containsKey((row.s,)) else 0
                self.names.updateValue((row.s,), (seen + 1,))
            count, total = self.counted.get() or (0, 0)
            self.counted.update((count + len(values), total + sum(values)))
            self.greatest.put([(value,) for value in sorted(values)[-3:]])
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 5000 + key[0] % 3 * 5000)
            yield self.told(key, "rows")

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            yield self.told(key, f"timer {expiredTimerInfo.getExpiryTimeInMs()}")
            if key[0] % 5 == 0:
                for variable in (self.counted, self.greatest, self.names):
                    variable.clear()

        def told(self, key: Any, why: str) -> Any:
            from pyspark.sql import Row

            greatest = sorted(value for (value,) in self.greatest.get())
            names = sorted((name, rows) for (name,), (rows,) in self.names.iterator())
            return Row(k=key[0], did=why, gave=f"{(*(self.counted.get() or ()),)} {greatest} {names}")

    return Remembering()


@dataclass(frozen=True)
class Declared:
    """A variable of `declaring`; `kind` is value, list or map. `schema` is that of one row."""

    name: str
    kind: str = "value"
    schema: str = "n long"
    ttl_ms: int | None = None


def declaring(variables: Sequence[Declared], deleted: Sequence[str] = ()) -> StatefulProcessor:
    """Gives what a key's variables hold, then adds the number of the key's rows to each."""
    of = [(one.name, one.kind, one.schema, one.ttl_ms) for one in variables]

    class Declaring(StatefulProcessor):
        def init(self, handle: Any) -> None:
            for name in deleted:
                handle.deleteIfExists(name)
            self.variables = []
            for name, kind, schema, ttl in of:
                if kind == "map":
                    self.variables.append((name, kind, handle.getMapState(name, "k string", schema, ttl)))
                else:
                    state = handle.getValueState if kind == "value" else handle.getListState
                    self.variables.append((name, kind, state(name, schema, ttl)))

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            count = len([*rows])
            for name, kind, state in self.variables:
                if kind == "value":
                    gave = state.get()
                    state.update((count + (gave[0] if gave else 0),))
                elif kind == "list":
                    gave = [*state.get()]
                    state.appendValue((count,))
                else:
                    gave = [*state.iterator()]
                    state.updateValue((str(count),), (count,))
                yield Row(k=key[0], did=name, gave=repr(gave))

    return Declaring()


NESTED = (
    "longs array<long>, texts array<string>, times array<array<timestamp>>, days struct<day:date, of:array<short>>, "
    "pairs array<struct<a:int, b:string>>, price decimal(10, 2), prices array<decimal(38, 10)>"
)


def nested(kind: str) -> StatefulProcessor:
    """Writes rows of arrays, structs and decimals, most of them of the types that they should have, and gives what it
    reads; to change what it has read changes no state.
    """

    class Nested(StatefulProcessor):
        def init(self, handle: Any) -> None:
            if kind == "value":
                self.state = handle.getValueState("nested", NESTED)
            elif kind == "list":
                self.state = handle.getListState("nested", NESTED)
            else:
                self.state = handle.getMapState("nested", "at int", NESTED)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from random import Random

            from pyspark.sql import Row

            random = Random(f"{key[0]} {[row.v for row in rows]}")
            for _ in range(3):
                read = self.read()
                yield Row(k=key[0], did=kind, gave=repr(read))
                for longs, *_ in read:
                    if longs:
                        longs.append(7)
                self.write(self.row(random))

        def read(self) -> list[Any]:
            if kind == "value":
                return [self.state.get()] if self.state.exists() else []
            return [*self.state.get()] if kind == "list" else [*self.state.values()]

        def write(self, row: Any) -> None:
            if kind == "value":
                self.state.update(row)
            elif kind == "list":
                self.state.appendList([row, row])
            else:
                self.state.updateValue((1,), row)

        def row(self, random: Any) -> Any:
            from datetime import date, datetime
            from decimal import Decimal

            from pyspark.sql import Row

            return (
                random.choice([[1, None, 1 << 40], (2, "x"), [], None, [True, 1.5], {1: 2}]),
                random.choice([["a", "ä", None], [1, False], None]),
                random.choice([[[datetime(2026, 1, 2, 3, 4, 5, 6)], None, []], None]),
                random.choice([(date(2026, 1, 2), [1, 70_000]), {"day": date(1969, 1, 2)}, None, [None, None]]),
                random.choice([[(1, "x"), Row(a=2, b=None), {"b": 3}, None], None]),
                random.choice([Decimal("1.255"), Decimal("-7"), Decimal("-0.004"), Decimal("1e3"), 5, None]),
                random.choice([[Decimal("0.1"), None], None]),
            )

    return Nested()


def failing(at: str) -> StatefulProcessor:
    """Raises a `ValueError` over the rows of this key."""

    class Failing(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("n", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            if key[0] == at:
                raise ValueError("this key is not welcome")
            self.state.update((1,))
            yield Row(k=key[0], did="", gave=f"{len([*rows])}")

    return Failing()


def struck_once(marker: str, processor: StatefulProcessor, kills: bool) -> StatefulProcessor:
    """This processor, but the first time that it has rows it writes this file, and raises or kills its worker."""

    class StruckOnce(StatefulProcessor):
        def init(self, handle: Any) -> None:
            processor.init(handle)

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            processor.handleInitialState(key, initialState, timerValues)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            import os
            import signal

            if not os.path.exists(marker):
                open(marker, "w").close()
                if kills:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("not the first time")
            return processor.handleInputRows(key, rows, timerValues)

    return StruckOnce()


def telling_rows() -> StatefulProcessor:
    """Gives the values of each call's rows, with those of the initial state since the last call."""

    class TellingRows(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.initial = handle.getListState("initial", "told string")

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            self.initial.appendValue((repr(initialState),))

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            initial = [told for (told,) in self.initial.get()]
            self.initial.clear()
            yield Row(k=str(key), did=repr(initial), gave=repr([*rows]))

    return TellingRows()


def telling(path: str) -> StatefulProcessor:
    """Writes a file when its `init` runs."""

    class Telling(StatefulProcessor):
        def init(self, handle: Any) -> None:
            with open(path, "a") as file:
                file.write("init")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            yield from ()

    return Telling()
