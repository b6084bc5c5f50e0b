"""What a processor's variables and timers call, in the place of PySpark's `StatefulProcessorApiClient`.

That one sends each call to the JVM; this one has the state at hand.

Names are PySpark's, whose wrapper, `ValueState`, `ListState` and `MapState` call them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.types import Row, StructType

from pyslash.errors import StateVariableError
from pyslash.operators.transform.state.home import Home
from pyslash.operators.transform.state.key_state import NEVER_MS, KeyState, time_of
from pyslash.operators.transform.state.values import RowForm, Values, unsafe_order
from pyslash.operators.transform.state.variables import LIST, MAP, VALUE, Schema, Variable, life_of
from pyslash.state.processor_blocks import key_bytes, key_of

_NO_TIME_MS = -1
T = TypeVar("T")


class StateClient:
    """The state of a home in one epoch. `changed` are the keys whose state the epoch has changed."""

    def __init__(
        self,
        home: Home,
        key_form: RowForm,
        time_mode: str,
        batch_ms: int,
        watermark_ms: int,
        dropped: Sequence[str] = (),
    ) -> None:
        """`time_mode` is Spark's name of it; the times are those of the micro-batch. State of `dropped` variables is
        deleted.
        """
        self.handle_state = StatefulProcessorHandleState.CREATED
        self.now_ms = batch_ms
        self._home = home
        self._key_form = key_form
        self._time_mode = time_mode.lower()
        self.watermark_ms = watermark_ms
        self._dropped = dropped
        self._read: dict[bytes, KeyState] = {}
        self._changed: set[bytes] = set()
        self._key: bytes | None = None
        self._state: KeyState | None = None  # of the key, once it has been asked for
        self._expiring: Iterator[tuple[Values, int]] | None = None

    # What PySpark's wrapper calls.

    def set_handle_state(self, state: StatefulProcessorHandleState) -> None:
        """How far the wrapper has come."""
        self.handle_state = state

    def set_implicit_key(self, key: Any) -> None:
        """The key that variables and timers are of, from now on."""
        self.set_key(self.kept_key(key))

    def kept_key(self, key: Any) -> Values:
        """A key as it is kept."""
        return self._key_form.kept(key, "Error setting implicit key")

    def set_key(self, key: Values) -> None:
        """The same, as the key is kept."""
        self._key, self._state = key_bytes(key), None

    def remove_implicit_key(self) -> None:
        """They are of none."""
        self._key = self._state = None

    def get_timestamps(self, time_mode: str) -> tuple[int, int]:
        """The time of the micro-batch, and its watermark; milliseconds."""
        return (_NO_TIME_MS, _NO_TIME_MS) if time_mode.lower() == "none" else (self.now_ms, self.watermark_ms)

    def get_expiry_timers_iterator(self, iterator_id: str, expiry_timestamp: int) -> tuple[Row, int, bool]:
        """A timer that fires, of those that there were when the first one was taken, and whether it is the last."""
        if self._expiring is None:
            self._expiring = iter(self.due(expiry_timestamp))
        key, time = next(self._expiring)
        return self._key_form.row(key), time, False

    def due(self, now_ms: int) -> list[tuple[Values, int]]:
        """The timers that fire by now, with their keys, in Spark's order."""
        of_home = (key for key, first in self._home.timers.items() if first <= now_ms)
        due = [(key, time) for key in {*of_home, *self._changed} for time in self._of(key).timers if time <= now_ms]
        order = unsafe_order(self._key_form.schema)
        return sorted(((key_of(key), time) for key, time in due), key=lambda one: (one[1], order(one[0])))

    def register_timer(self, expiry_time_stamp_ms: int) -> None:
        """A timer of the key."""
        self._check_timers("Error register timer")
        self.state().timers.add(time_of(expiry_time_stamp_ms))
        self.change()

    def delete_timer(self, expiry_time_stamp_ms: int) -> None:
        """Forget it, if there is one."""
        self._check_timers("Error deleting timer")
        timers, time_ms = self.state().timers, time_of(expiry_time_stamp_ms)
        if time_ms in timers:
            timers.remove(time_ms)
            self.change()

    def timers(self) -> list[int]:
        """Those of the key, in Spark's order: of the bytes of its rows, in which numbers begin with the low byte."""
        self._check_timers("Error listing timers")
        return sorted(self.state().timers, key=lambda time: time.to_bytes(8, "little", signed=True))

    def _check_timers(self, doing: str) -> None:
        if self._time_mode == "none":
            raise PySparkRuntimeError(f"{doing}: timers are not supported with timeMode=None")
        if self.handle_state is StatefulProcessorHandleState.CREATED:
            raise PySparkRuntimeError(f"{doing}: timers are of a key, and a processor's init has none")

    # What variables call.

    def state(self) -> KeyState:
        """Of the key.

        Raises:
            PySparkRuntimeError: there is no key.
        """
        if self._state is None:
            if self._key is None:
                raise PySparkRuntimeError("Implicit key not found in state store: state is used without a key")
            self._state = self._of(self._key)
        return self._state

    def _of(self, key: bytes) -> KeyState:
        found = self._read.get(key)
        if found is None:
            kept = self._home.kept.get(key)
            found = self._read[key] = KeyState.read(kept) if kept is not None else KeyState()
            found.drop(self._dropped)
        return found

    def change(self) -> None:
        """The state of the key has changed."""
        assert self._key is not None
        self._changed.add(self._key)

    # What the epoch makes of it.

    def changes(self) -> Iterator[tuple[bytes, bytes]]:
        """The state of each key that has changed, without what has expired; no bytes: there is none any more."""
        expired = {key for key, first in self._home.expiries.items() if first <= self.now_ms}
        for key in sorted(self._changed | expired):
            state = self._of(key)
            if key in expired:
                state.expire(self.now_ms)
            kept = state.kept()
            if kept or key in self._home.kept:
                yield key, kept

    def whole(self) -> dict[bytes, bytes]:
        """The state of each key before the epoch, without what is dropped."""
        if not self._dropped:
            return self._home.kept
        return {key: self._of(key).kept() for key in self._home.kept if key not in self._changed}


class StateHandle(StatefulProcessorHandle):  # type: ignore[misc]
    """What a processor's `init` declares its variables by."""

    def __init__(
        self, client: StateClient, variables: dict[str, Variable], deleted: Sequence[str], forms: dict[str, RowForm]
    ) -> None:
        """`variables` are those that the processor has declared in the driver, and `deleted` those that it has deleted
        there; `forms` has a form for each schema.
        """
        super().__init__(client)
        self._client = client
        self._variables = variables
        self._deleted = deleted
        self._forms = forms

    def getValueState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> ValueState:
        """A variable of one row."""
        variable = self._declared(stateName, VALUE, ttlDurationMs)
        return ValueState(ValueClient(self._client, variable, self._forms), stateName)

    def getListState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> ListState:
        """A variable of a list of rows."""
        variable = self._declared(stateName, LIST, ttlDurationMs)
        return ListState(ListClient(self._client, variable, self._forms), stateName)

    def getMapState(
        self, stateName: str, userKeySchema: Schema, valueSchema: Schema, ttlDurationMs: int | None = None
    ) -> MapState:
        """A variable of rows by rows."""
        variable = self._declared(stateName, MAP, ttlDurationMs)
        return MapState(MapClient(self._client, variable, self._forms), stateName)

    def listTimers(self) -> Iterator[int]:
        """The key's timers, as they are when the first one is taken."""
        yield from self._client.timers()

    def deleteIfExists(self, stateName: str) -> None:
        """Nothing: the query's first epoch deletes what the checkpoint has of it."""
        self._check_created(f"Error deleting the state of {stateName}: it can be deleted")
        if stateName not in self._deleted:
            raise StateVariableError(
                f"a processor's init deletes the variable {stateName} in a task, and not in the driver. An init has to "
                "delete the same each time"
            )

    def _check_created(self, what: str) -> None:
        if self._client.handle_state is not StatefulProcessorHandleState.CREATED:
            raise PySparkRuntimeError(f"{what} in a processor's init alone")

    def _declared(self, name: str, kind: str, ttl_ms: int | None) -> Variable:
        self._check_created(f"Error initializing {kind} state: it can be declared")
        found = self._variables.get(name)
        if found is None or found.kind != kind or found.ttl_ms != life_of(ttl_ms):
            raise StateVariableError(
                f"a processor's init declares the {kind} variable {name} in a task, and in the driver "
                f"{found.kept.sql if found is not None else 'no such one'}. An init has to declare the same each time"
            )
        return found


class _Client:
    """Of one variable; its methods are named as PySpark's."""

    def __init__(self, client: StateClient, variable: Variable, forms: dict[str, RowForm]) -> None:
        self._client = client
        self._name = variable.name
        self._form = forms[variable.value]
        self._ttl_ms = variable.ttl_ms

    def _expiry(self) -> int:
        return NEVER_MS if self._ttl_ms is None else self._client.now_ms + self._ttl_ms

    def _is_live(self, expiry: int) -> bool:
        return expiry > self._client.now_ms


class ValueClient(_Client):
    """In the place of PySpark's `ValueStateClient`."""

    def exists(self, state_name: str) -> bool:
        """Whether there is a row."""
        return self.get(state_name) is not None

    def get(self, state_name: str) -> Values | None:
        """The row; None: there is none."""
        entry = self._client.state().values.get(self._name)
        return self._form.given(entry[0]) if entry is not None and self._is_live(entry[1]) else None

    def update(self, state_name: str, value: Any) -> None:
        """Take this row."""
        kept = self._form.kept(value, "Error updating value state")
        self._client.state().values[self._name] = (kept, self._expiry())
        self._client.change()

    def clear(self, state_name: str) -> None:
        """Take none."""
        if self._client.state().values.pop(self._name, None) is not None:
            self._client.change()


class ListClient(_Client):
    """In the place of PySpark's `ListStateClient`."""

    def __init__(self, client: StateClient, variable: Variable, forms: dict[str, RowForm]) -> None:
        super().__init__(client, variable, forms)
        self._reading = _Reading[Values]()

    def _live(self) -> list[Values]:
        entries = self._client.state().lists.get(self._name, [])
        return [value for value, expiry in entries if self._is_live(expiry)]

    def exists(self, state_name: str) -> bool:
        """Whether there is a row."""
        return bool(self._live())

    def get(self, state_name: str, iterator_id: str) -> tuple[Values, bool]:
        """The next row of an iterator over those that there were at its first one, and whether it is the last."""
        row, is_last = self._reading.next(iterator_id, self._live)
        return self._form.given(row), is_last

    def append_value(self, state_name: str, value: Any) -> None:
        """Add a row."""
        self._add([value])

    def append_list(self, state_name: str, values: Any) -> None:
        """Add rows."""
        self._add(values)

    def put(self, state_name: str, values: Any) -> None:
        """Have these rows."""
        kept = self._kept(values)
        self._client.state().lists[self._name] = kept
        self._client.change()

    def clear(self, state_name: str) -> None:
        """Have none."""
        if self._client.state().lists.pop(self._name, None) is not None:
            self._client.change()

    def _add(self, values: Any) -> None:
        kept = self._kept(values)
        self._client.state().lists.setdefault(self._name, []).extend(kept)
        self._client.change()

    def _kept(self, values: Any) -> list[tuple[Values, int]]:
        expiry = self._expiry()
        kept = [(self._form.kept(value, "Error updating value state"), expiry) for value in values]
        if not kept:
            raise PySparkRuntimeError(
                f"Error updating value state: a list that is written has a row at least, and {self._name} gets none"
            )
        return kept


class MapClient(_Client):
    """In the place of PySpark's `MapStateClient`."""

    def __init__(self, client: StateClient, variable: Variable, forms: dict[str, RowForm]) -> None:
        super().__init__(client, variable, forms)
        self._key_form = forms[variable.key]
        self._order = unsafe_order(StructType.fromJson(json.loads(variable.key)))
        self._reading = _Reading[tuple[Values, Values]]()

    def _live(self) -> list[tuple[Values, Values]]:
        entries = self._client.state().maps.get(self._name, {})
        live = [(key, value) for key, (value, expiry) in entries.items() if self._is_live(expiry)]
        return sorted(live, key=lambda pair: self._order(pair[0]))

    def _key(self, key: Any) -> Values:
        return self._key_form.kept(key, "Error reading the key of a map state")

    def exists(self, state_name: str) -> bool:
        """Whether there is a row."""
        return bool(self._live())

    def get_value(self, state_name: str, user_key: Any) -> Row | None:
        """The row of a key; None: there is none."""
        entry = self._client.state().maps.get(self._name, {}).get(self._key(user_key))
        return self._form.row(entry[0]) if entry is not None and self._is_live(entry[1]) else None

    def contains_key(self, state_name: str, user_key: Any) -> bool:
        """Whether there is one."""
        return self.get_value(state_name, user_key) is not None

    def update_value(self, state_name: str, user_key: Any, value: Any) -> None:
        """Take this row for a key."""
        key, kept = self._key(user_key), self._form.kept(value, "Error updating map state value")
        self._client.state().maps.setdefault(self._name, {})[key] = (kept, self._expiry())
        self._client.change()

    def get_key_value_pair(self, state_name: str, iterator_id: str) -> tuple[Values, Values, bool]:
        """The next one of an iterator, as `ListClient.get`."""
        (key, value), is_last = self._reading.next(iterator_id, self._live)
        return self._key_form.given(key), self._form.given(value), is_last

    def get_row(self, state_name: str, iterator_id: str, is_key: bool) -> tuple[Values, bool]:
        """The next key, or row, of an iterator, as `ListClient.get`."""
        (key, value), is_last = self._reading.next(iterator_id, self._live)
        return self._key_form.given(key) if is_key else self._form.given(value), is_last

    def remove_key(self, state_name: str, key: Any) -> None:
        """Take none for a key."""
        if self._client.state().maps.get(self._name, {}).pop(self._key(key), None) is not None:
            self._client.change()

    def clear(self, state_name: str) -> None:
        """Have no keys."""
        if self._client.state().maps.pop(self._name, None) is not None:
            self._client.change()


class _Reading(Generic[T]):
    """What is left of iterators, by their ids in PySpark. A processor makes millions of them: one that has come to its
    end is forgotten.
    """

    def __init__(self) -> None:
        self._rest: dict[str, list[T]] = {}
        self._empty = ""  # the last one that had nothing: PySpark does not know that it has come to its end

    def next(self, iterator_id: str, everything: Callable[[], list[T]]) -> tuple[T, bool]:
        """The next of what there was when it was asked first, and whether it is the last one.

        Raises:
            StopIteration: there was nothing.
        """
        rest = self._rest.pop(iterator_id, None)
        if rest is None:
            rest = [] if iterator_id == self._empty else everything()[::-1]
        if not rest:
            self._empty = iterator_id
            raise StopIteration
        found = rest.pop()
        if rest:
            self._rest[iterator_id] = rest
        return found, not rest
