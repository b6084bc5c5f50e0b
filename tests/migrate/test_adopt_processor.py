"""What tasks make of the rows in which Spark tells a processor's state."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from pyspark.sql.types import Row, StructType, TimestampType

from pyslash.migrate.adopt_processor import _VariableParts
from pyslash.operators.transform.state.key_state import NEVER_MS
from pyslash.operators.transform.state.variables import MAP, VALUE, Variable

# 01:30 in New York, before and after clocks went back.
TWICE = (1_762_061_400_000_000, 1_762_065_000_000_000)
KEY = StructType().add("k", "string").json()
TIME = StructType().add("at", "timestamp").json()


@pytest.fixture
def _in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def local(micros: int) -> Row:
    """A time, as PySpark gives it to the task that asks for the row."""
    return Row(at=TimestampType().fromInternal(micros))


@pytest.mark.usefixtures("_in_new_york")
def test_an_hour_that_comes_twice_is_two() -> None:
    rows = (Row(partition_id=3, key=Row(k=str(micros)), value=local(micros)) for micros in TWICE)
    parts = _VariableParts(KEY, Variable("v", VALUE, TIME))(rows)
    assert [part for _, part in parts] == [(VALUE, "v", ((micros,), NEVER_MS)) for micros in TWICE]
    assert os.environ["TZ"] == "America/New_York"
    assert time.tzname[0] == "EST"


@pytest.mark.usefixtures("_in_new_york")
def test_keys_of_a_map_in_that_hour_stay_apart() -> None:
    rows = (Row(partition_id=0, key=Row(k="a"), map_value={local(at): local(at) for at in TWICE}) for _ in range(1))
    ((_, (kind, _, kept)),) = _VariableParts(KEY, Variable("m", MAP, TIME, TIME))(rows)
    assert kind == MAP
    assert kept == {(micros,): ((micros,), NEVER_MS) for micros in TWICE}
