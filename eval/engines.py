"""The engines: what is set in a session so that the same query is run by one or the other."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

CORES = len(os.sched_getaffinity(0))

COMMON = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}


@dataclass(frozen=True)
class Engine:
    """A name, the session's conf beyond `COMMON`, and what stands out about it."""

    name: str
    conf: dict[str, str] = field(default_factory=dict)
    slash: bool = False
    aggregates: bool = True


def _slash(name: str, ingest: str, **more: str) -> Engine:
    # Without `require` a query that is not covered would be measured as pyslash while plain Spark ran it.
    conf = {"mode": "require", "ingest": ingest, **more}
    return Engine(name, {f"spark.slash.{key}": value for key, value in conf.items()}, slash=True)


ENGINES = {
    engine.name: engine
    for engine in (
        _slash("slash", "auto"),
        _slash("slash-files", "files"),
        _slash("slash-rows", "rows"),
        _slash("slash-arrow", "arrow"),
        # Rows go to their owners before they are aggregated: all else is the same.
        _slash("slash-uppar", "auto", strategy="repartition"),
        Engine(
            "spark-rocksdb",
            {
                "spark.sql.streaming.stateStore.providerClass": (
                    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
                ),
                "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
            },
        ),
        Engine(
            "spark-hdfs",
            {
                "spark.sql.streaming.stateStore.providerClass": (
                    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
                )
            },
        ),
        # The floor: the same source and sink, and no aggregation at all.
        Engine("noop", aggregates=False),
    )
}
