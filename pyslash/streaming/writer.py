"""What a `DataStreamWriter` has been told so far, read from the JVM object behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming import DataStreamWriter

from pyslash.plan.catalyst import items, name_of, optional
from pyslash.plan.reasons import Uncovered

_TRIGGERS = {
    "ProcessingTimeTrigger": "processingTime",
    "AvailableNowTrigger$": "availableNow",
    "OneTimeTrigger$": "once",
}


@dataclass(frozen=True)
class WriterSettings:
    """The settings of a writer at `start()`; option names are lower case."""

    source: str
    output_mode: str
    trigger: Any
    options: dict[str, str]
    partition_columns: list[str]

    @classmethod
    def of(cls, writer: DataStreamWriter) -> WriterSettings:
        """Read the writer's private fields by reflection: it has no getters."""
        java = writer._jwrite
        options = _field(java, "extraOptions").originalMap()
        names = items(options.keys().toSeq())
        columns = optional(_field(java, "partitioningColumns"))
        return cls(
            source=str(_field(java, "source")).lower(),
            output_mode=str(_field(java, "outputMode").toString()).lower(),
            trigger=_field(java, "trigger"),
            options={str(name).lower(): str(options.apply(name)) for name in names},
            partition_columns=[str(column) for column in items(columns)] if columns is not None else [],
        )

    def check(self) -> None:
        """Refuse what Spark must run itself.

        Raises:
            Uncovered: the trigger is not covered.
        """
        kind = name_of(self.trigger)
        if kind not in _TRIGGERS:
            raise Uncovered(f"the trigger {kind.rstrip('$')} is not covered")


def _field(java: Any, name: str) -> Any:
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
