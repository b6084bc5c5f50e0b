"""Processors and functions over frames of pandas, whose calls follow from a seed and from their rows.

Functions and classes are local to functions: PySpark then sends them to its workers whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from tests.support.processors import OUTPUT

STATE = "n long, s string, d double, b boolean, t date"
Function = Callable[[Any, Any, Any], Iterator[Any]]


def transformed_frames(
    rows: DataFrame,
    processor: StatefulProcessor,
    time_mode: str,
    keys: tuple[str | Column, ...] = ("k",),
    output: str = OUTPUT,
    initial: GroupedData | None = None,
) -> DataFrame:
    """What a processor of frames gives."""
    return rows.groupBy(*keys).transformWithStateInPandas(processor, output, "Append", time_mode, initial)


def applied(
    rows: DataFrame,
    function: Function,
    timeout: str,
    keys: tuple[str, ...] = ("k",),
    mode: str = "append",
    output: str = OUTPUT,
    state: str = STATE,
) -> DataFrame:
    """What a function of `applyInPandasWithState` gives."""
    return rows.groupBy(*keys).applyInPandasWithState(function, output, state, mode, timeout)


def changing_frames() -> StatefulProcessor:
    """Gives one frame again and again, and a list in it that grows."""

    class Changing(StatefulProcessor):
        def init(self, handle: Any) -> None:
            import pandas

            self.frame = pandas.DataFrame({"k": [""], "n": [0], "seen": [[0]]})

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            seen: list[int] = []
            for frame in rows:
                for value in frame["v"].tolist():
                    seen.append(value)
                    self.frame.loc[0, "k"], self.frame.loc[0, "n"] = repr(key[0]), len(seen)
                    self.frame.at[0, "seen"] = seen
                    yield self.frame

    return Changing()


def counted_by_hour(rows: DataFrame) -> DataFrame:
    """The number of the rows of each hour so far, as `applyInPandasWithState` has it."""

    def counted(key: Any, frames: Any, state: Any) -> Iterator[Any]:
        import pandas

        (count,) = state.get if state.exists else (0,)
        count += sum(map(len, frames))
        state.update((count,))
        yield pandas.DataFrame({"hour": [key[0]], "n": [count]})

    hours = rows.withColumn("hour", F.date_trunc("hour", "ts")).groupBy("hour")
    return hours.applyInPandasWithState(counted, "hour timestamp, n long", "n long", "update", "NoTimeout")


def over_frames(processor: StatefulProcessor) -> StatefulProcessor:
    """The same over frames: it gets the rows that they have, and what it gives for a key is one frame or two."""

    class OverFrames(StatefulProcessor):
        def init(self, handle: Any) -> None:
            processor.init(handle)

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            for row in initialState.itertuples(index=False):
                processor.handleInitialState(key, row, timerValues)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            each = (row for frame in rows for row in frame.itertuples(index=False))
            return self.framed(processor.handleInputRows(key, each, timerValues))

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            return self.framed(processor.handleExpiredTimer(key, timerValues, expiredTimerInfo))

        def framed(self, rows: Any) -> Iterator[Any]:
            import pandas as pd

            found = [row.asDict() for row in rows]
            for part in (found[:2], found[2:]):
                # Of an order of its own: columns are taken by their names.
                yield pd.DataFrame(part, columns=["gave", "k", "did"])

    return OverFrames()


def tell() -> Callable[[Any, Any], str]:
    """Makes a function that says all that can be seen of a key and a frame."""

    def told(key: Any, frame: Any) -> str:
        columns = [
            (name, str(frame.dtypes.iloc[at]), [(type(one).__name__, str(one)) for one in frame.iloc[:, at]])
            for at, name in enumerate(frame.columns)
        ]
        keys = [(type(one).__name__, str(one)) for one in key]
        return f"{keys} {frame.index!r} {frame.columns!r} {columns}"

    return told


def telling_frames() -> StatefulProcessor:
    """Gives a text of each frame, with those of the initial state's before."""
    told = tell()

    class Telling(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("frames", "n long")
            self.initial = handle.getListState("initial", "told string")

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            self.initial.appendValue((told(key, initialState),))

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            import pandas as pd

            initial = [text for (text,) in self.initial.get()]
            self.initial.clear()
            if initial:
                yield pd.DataFrame({"k": "", "did": ["initial"] * len(initial), "gave": initial})
            number = (self.state.get() or (0,))[0]
            for frame in rows:
                yield pd.DataFrame({"k": [str(number)], "did": ["frame"], "gave": [told(key, frame)]})
                number += 1
            self.state.update((number,))

    return Telling()


def telling_groups() -> Function:
    """Gives a text of each frame and its state."""
    told = tell()

    def function(key: Any, frames: Any, state: Any) -> Iterator[Any]:
        import pandas as pd

        number = state.getOption[0] if state.exists else 0
        for frame in frames:
            did = f"{state.hasTimedOut} {state.exists} {state}"
            yield pd.DataFrame({"k": [str(number)], "did": [did], "gave": [told(key, frame)]})
            number += 1
        state.update((number, None, None, None, None))
        if state.hasTimedOut:
            state.remove()
        else:
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1000)

    return function


def group_program(seed: int, timeout: str) -> Function:
    """Does to the state of a key what a generator with this seed has it do for the key's rows."""

    def function(key: Any, frames: Any, state: Any) -> Iterator[Any]:
        from random import Random

        import pandas as pd

        given = [int(v) for frame in frames for v in frame.v]
        random = Random(f"{seed} {key} {given} {state.exists} {state.hasTimedOut}")
        did = [("called", f"{given} {state.hasTimedOut} {state}")]
        for _ in range(random.randrange(5)):
            did.append(act(state, random))
        at = random.randrange(len(did) + 1)
        for part in (did[:at], did[at:]):
            yield pd.DataFrame({"k": key[0], "did": [what for what, _ in part], "gave": [gave for _, gave in part]})

    def act(state: Any, random: Any) -> tuple[str, str]:
        from datetime import date

        import numpy as np

        call = random.choice(["get", "exists", "update", "update", "update", "remove", "timeout", "timeout"])
        if call == "get":
            return call, repr(state.getOption)
        if call == "exists":
            return call, repr(state.exists)
        if call == "remove":
            return call, repr(state.remove())
        if call == "timeout":
            return wait(state, random)
        row = (
            random.choice([None, random.randrange(-9, 9), np.int32(7), 1 << 70, True, 0.5]),
            random.choice([None, "", "ä", 7, False]),
            random.choice([None, 0.5, np.float64(-0.0), 3]),
            random.choice([None, True, np.bool_(False), 0]),
            random.choice([None, date(2026, 1, random.randrange(1, 28))]),
        )
        return f"update {row}", repr(state.update(row))

    def wait(state: Any, random: Any) -> tuple[str, str]:
        if timeout == "EventTimeTimeout":
            step = random.choice([1, 5000, 20_000])
            return f"timeout {step}", repr(state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + step))
        if timeout == "ProcessingTimeTimeout":
            step = random.choice([1, 36_000_000])
            return f"timeout {step}", repr(state.setTimeoutDuration(step))
        return "no timeout", repr(state.oldTimeoutTimestamp)

    return function


def remembering_groups() -> Function:
    """Keeps the number and the sum of a key's rows until a timeout of event time, which removes those of some keys.

    What it gives does not depend on the order of a key's rows, nor does it give a key the same twice in a micro-batch.
    """

    def function(key: Any, frames: Any, state: Any) -> Iterator[Any]:
        import pandas as pd

        count, total = state.getOption or (0, 0)
        if state.hasTimedOut and key[0] % 5 == 0:
            state.remove()
        else:
            for frame in frames:
                count, total = count + len(frame), total + int(frame.v.sum())
            state.update((count, total))
        if not state.hasTimedOut:
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 5000 + int(key[0]) % 3 * 5000)
        did = "timed out" if state.hasTimedOut else "rows"
        yield pd.DataFrame({"k": [key[0]], "did": [did], "gave": [f"{count} {total}"]})

    return function


def wrong(what: str) -> Function:
    """Gives something that it may not give, or raises."""

    def function(key: Any, frames: Any, state: Any) -> Any:
        import pandas as pd

        if what == "number":
            return 7
        if what == "texts":
            return iter(["no frame"])
        if what == "one column":
            return iter([pd.DataFrame({"k": ["alone"]})])
        if what == "untidy":
            return iter([pd.DataFrame({"k": ["x"], "did": [""], "gave": [object]})])
        raise ValueError("this key is not welcome")

    return function
