"""What a job has set of a query that is about to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from pyslash.plan.catalyst import name_of
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

_TRIGGERS = {
    "ProcessingTimeTrigger": "processingTime",
    "AvailableNowTrigger$": "availableNow",
    "OneTimeTrigger$": "once",
}


class RefusedBySpark(Exception):
    """Spark refuses this query: its own start has to be called, and raises Spark's error."""


@dataclass(frozen=True)
class WriterSettings:
    """The settings of a query at its start: options are named as the job spells them, the sink as it calls itself.

    Spark finds most options whatever their case, and some, such as `asyncProgressTrackingEnabled`, in their own only.
    """

    sink: str
    output_mode: OutputMode
    trigger: Any
    options: dict[str, str]

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

    def check(self) -> None:
        """Refuse what Spark must run itself.

        Raises:
            Uncovered: the trigger is not covered.
        """
        kind = name_of(self.trigger)
        if kind not in _TRIGGERS:
            raise Uncovered(f"the trigger {kind.rstrip('$')} is not covered")
