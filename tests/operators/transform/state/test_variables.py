"""What a processor declares (`tests/streaming/test_changed_processors.py` has the rest)."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StructType

from tests.support.processors import COVERED, WHY_NOT

if not COVERED:
    pytest.skip(WHY_NOT, allow_module_level=True)

from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils

from pyslash.operators.transform.state.variables import declared, group_state
from pyslash.plan.reasons import Uncovered

COUNT = StructType().add("n", LongType())


def test_the_class_of_a_processor_stays_as_its_user_has_it() -> None:
    """`cloudpickle` finds the class again by which it was pickled, and would put the pickle's methods into it."""
    names = ["counted"]

    class Color(Enum):
        RED = 1

    class Counting(StatefulProcessor):
        starts = 0

        def init(self, handle: Any) -> None:
            Counting.starts += 1
            self.states = [handle.getValueState(name, COUNT) for name in names]

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            return iter([Color.RED])

    def function(key: Any, frames: Any, state: Any) -> Any:
        return Counting(), Color.RED

    init, value = Counting.init, Color.RED
    wrapper = TransformWithStateInPandasUdfUtils(Counting(), "None")
    commands = [CloudPickleSerializer().dumps((each, None)) for each in (wrapper.transformWithStateUDF, function)]
    names.append("more")
    Counting.starts = 7
    assert [one.name for one in declared(commands[0], expires=False)[0]] == ["counted"]
    assert len(group_state(commands[1], COUNT.json())) == 1
    assert (Counting.init, Counting.starts, Color.RED) == (init, 7, value)


class OfWorkers:
    """Its module is not found here."""

    def __reduce__(self) -> Any:
        return import_module, ("a_module_that_workers_have",)


def test_a_function_that_the_driver_cannot_read_is_sparks() -> None:
    command = CloudPickleSerializer().dumps((OfWorkers(), None))
    with pytest.raises(Uncovered, match="its function cannot be read in the driver: ModuleNotFoundError"):
        group_state(command, COUNT.json())


def test_a_life_of_nothing_is_none_as_in_spark() -> None:
    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("n", COUNT, 0)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            return iter(())

    wrapper = TransformWithStateInPandasUdfUtils(Counting(), "None")
    command = CloudPickleSerializer().dumps((wrapper.transformWithStateUDF, None))
    (variable,), _ = declared(command, expires=False)
    assert (variable.ttl_ms, variable.kept.expires) == (None, False)
