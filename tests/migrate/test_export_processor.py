"""What of a processor's state is refused before anything is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.types import StructType

from pyslash.errors import InvalidInputError
from pyslash.migrate.export_processor import ExportGroupStates, ExportProcessor
from pyslash.migrate.state_source import ProcessorStart
from pyslash.plan.change.processor import KeptVariable, ProcessorState

TIMERS = "$procTimers_keyToTimestamp"


@pytest.mark.parametrize(
    ("told", "declared", "message"),
    [
        ((), {"v", TIMERS}, "an older pyslash has written the state of the variable v"),
        (("v", "w"), {"v"}, "there is state of the variable w, which the query's last start did not declare"),
        ((), set(), "declares no variable"),
    ],
)
def test_variables_are_those_of_sparks_last_start(told: tuple[str, ...], declared: set[str], message: str) -> None:
    processor = ProcessorState(tuple(KeptVariable(name, "value", (("n", "bigint"),)) for name in told))
    manifest: Any = SimpleNamespace(identity=SimpleNamespace(processor=processor))
    source: Any = SimpleNamespace(starts=lambda: [ProcessorStart(frozenset(declared), "ProcessingTime")])
    with pytest.raises(InvalidInputError, match=message):
        ExportProcessor.of(cast(Any, None), manifest, source)


def test_states_of_groups_in_the_first_format_are_refused() -> None:
    schema = StructType().add("n", "long").add("timeoutTimestamp", "integer")
    with pytest.raises(InvalidInputError, match="stateFormatVersion"):
        ExportGroupStates(cast(Any, None), cast(Any, None), StructType(), schema)
