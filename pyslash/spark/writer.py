"""The settings of a `DataStreamWriter`, read from the JVM object behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from pyslash.plan.catalyst import items, name_of, optional
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

_TRIGGERS = {
    "ProcessingTimeTrigger": "processingTime",
    "AvailableNowTrigger$": "availableNow",
    "OneTimeTrigger$": "once",
}


class RefusedBySpark(Exception):
    """Spark refuses this writer: its own `start()` or `toTable()` has to be called, and raises Spark's error."""


@dataclass(frozen=True)
class WriterSettings:
    """The settings of a writer at `start()`: option names and the source are as the job spells them.

    Spark finds most options whatever their case, and some, such as `asyncProgressTrackingEnabled`, in their own only.
    """

    source: str
    output_mode: OutputMode
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
            source=str(_field(java, "source")),
            output_mode=OutputMode(str(_field(java, "outputMode").toString()).lower()),
            trigger=_field(java, "trigger"),
            options={str(name): str(options.apply(name)) for name in names},
            partition_columns=[str(column) for column in items(columns)] if columns is not None else [],
        )

    def with_options(self, told: Mapping[str, Any]) -> WriterSettings:
        """The same with further options, which replace those of the same name, whatever its case."""
        named = {name.lower() for name in told}
        kept = {name: value for name, value in self.options.items() if name.lower() not in named}
        return replace(self, options=kept | {name: str(value) for name, value in told.items() if value is not None})

    def option(self, name: str) -> str | None:
        """An option, whatever case the job spells its name in."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), None)

    @property
    def query_name(self) -> str | None:
        """The query's name; None if it has none."""
        return self.option("queryName")

    def checkpoint(self, spark: SparkSession) -> str | None:
        """Where the query's checkpoint will be; None if the job leaves that to Spark."""
        location = self.option("checkpointLocation")
        if location is not None:
            return location
        root = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        # Without a name, Spark takes a new folder for each start.
        return f"{root}/{self.query_name or uuid4()}" if root else None

    def may_be_temporary(self, spark: SparkSession) -> bool:
        """Whether Spark lets a query with this sink run in a temporary checkpoint."""
        jvm: Any = spark._jvm
        return self.source in items(jvm.org.apache.spark.sql.classic.DataStreamWriter.SOURCES_ALLOW_ONE_TIME_QUERY())

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
