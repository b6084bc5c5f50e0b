"""A query in any output mode, run to the end of its input by plain Spark or by pyslash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import pyslash
from tests.support.attempt import settings

Query = Callable[[DataFrame], DataFrame]


@dataclass
class Ran:
    """What a query gave: rows of each call of the job's function, sorted, and its figures."""

    batches: list[list[Any]] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)


def ran(
    rows: DataFrame,
    folder: Path,
    query: Query,
    output: str,
    mode: str,
    batches: list[list[Any]] | None = None,
    **conf: str,
) -> Ran:
    """Run a query to the end of its input, from the checkpoint that it has left there for this engine, if it has.

    `batches` has what earlier runs gave, and gets what this one gives even if it fails.
    """
    result = Ran(batches if batches is not None else [])
    values = {"spark.slash.mode": mode, **{f"spark.slash.{name}": value for name, value in conf.items()}}
    with settings(rows.sparkSession, values):
        running = (
            query(rows)
            .writeStream.outputMode(output)
            .foreachBatch(lambda batch, _: result.batches.append(sorted(batch.collect(), key=repr)))
            .option("checkpointLocation", str(folder / f"checkpoint-{mode}"))
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
        result.progress = pyslash.progress(running)
    return result
