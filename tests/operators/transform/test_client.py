"""What a processor calls while it handles a key (`tests/streaming/test_processors.py` has the rest)."""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.types import StructType

from pyslash.operators.transform.client import StateClient, StateHandle
from pyslash.operators.transform.state.home import Home
from pyslash.operators.transform.state.values import RowForm

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
