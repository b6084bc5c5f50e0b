"""What a processor calls while it handles a key (`tests/streaming/test_processors.py` has the rest)."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.list_state_client import ListStateIterator
from pyspark.sql.streaming.map_state_client import MapStateIterator, MapStateKeyValuePairIterator
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.types import LongType, StringType, StructType

from pyslash.operators.transform.client import ListClient, MapClient, StateClient, StateHandle
from pyslash.operators.transform.state.home import Home
from pyslash.operators.transform.state.values import RowForm
from pyslash.operators.transform.state.variables import LIST, MAP, Variable

KEY = StructType().add("k", "string")


def test_timers_are_listed_as_they_are_when_the_first_one_is_taken() -> None:
    client = StateClient(Home(), RowForm(KEY), "EventTime", batch_ms=0, watermark_ms=0)
    handle = StateHandle(client, {}, (), {})
    client.set_handle_state(StatefulProcessorHandleState.INITIALIZED)
    client.set_implicit_key(("a",))
    listed = handle.listTimers()
    handle.registerTimer(1)
    handle.registerTimer(2)
    assert next(listed) == 1
    handle.registerTimer(3)
    assert [*listed] == [2]


def test_timers_of_one_time_fire_in_sparks_order_of_keys() -> None:
    """That of the bytes of rows in its store: nulls, lengths of strings, numbers from the low byte on, strings."""
    keys = [("a", 256), ("b", 256), ("b", -1), ("aaaa", 1 << 40), ("aaaa", 5), ("b", None)]
    form = RowForm(StructType().add("s", StringType()).add("n", LongType()))
    client = StateClient(Home(), form, "EventTime", batch_ms=0, watermark_ms=0)
    client.set_handle_state(StatefulProcessorHandleState.INITIALIZED)
    for key in sorted(keys, key=str):
        client.set_implicit_key(key)
        for time in (7, 3):
            client.register_timer(time)
    assert client.due(5) == [(key, 3) for key in keys]
    assert client.due(7) == [(key, time) for time in (3, 7) for key in keys]


def test_an_iterator_that_has_come_to_its_end_is_forgotten() -> None:
    """A processor may make several for each row of a micro-batch."""
    client = StateClient(Home(), RowForm(KEY), "None", batch_ms=0, watermark_ms=0)
    forms = {KEY.json(): RowForm(KEY)}
    of_list = ListClient(client, Variable("l", LIST, KEY.json()), forms)
    of_map = MapClient(client, Variable("m", MAP, KEY.json(), KEY.json()), forms)
    client.set_implicit_key(("a",))
    nothing = ListStateIterator(of_list, "l")
    assert [*nothing] == [*MapStateIterator(of_map, "m", True)] == []
    of_list.put("l", [("x",), ("y",)])
    of_map.update_value("m", ("x",), ("y",))
    assert [*nothing] == []
    begun, other = ListStateIterator(of_list, "l"), ListStateIterator(of_list, "l")
    assert next(begun) == next(other) == ("x",)
    of_list.clear("l")
    assert [*other] == [("y",)]
    assert [*MapStateIterator(of_map, "m", True)] == [("x",)]
    assert [*MapStateIterator(of_map, "m", False)] == [("y",)]
    assert [*MapStateKeyValuePairIterator(of_map, "m")] == [(("x",), ("y",))]
    assert len(of_list._reading._rest) == 1
    assert [*begun] == [("y",)]
    assert not of_list._reading._rest
    assert not of_map._reading._rest


def test_a_time_that_the_jvm_has_not_is_an_error_where_it_is_given() -> None:
    client = StateClient(Home(), RowForm(KEY), "EventTime", batch_ms=0, watermark_ms=0)
    handle = StateHandle(client, {}, (), {})
    client.set_handle_state(StatefulProcessorHandleState.INITIALIZED)
    client.set_implicit_key(("a",))
    handle.registerTimer((1 << 63) - 1)
    for call in (handle.registerTimer, handle.deleteTimer):
        with pytest.raises(ValueError, match="out of range"):
            call(1 << 63)
    assert [*handle.listTimers()] == [(1 << 63) - 1]
