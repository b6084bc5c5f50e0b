"""Spark's engines: what is set in a session so that the same stream is run by this store or that, or by pyslash."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from eval import oracle, stream
from eval.engines.base import CORES, Engine, Runner
from eval.refusal import CannotRunError
from eval.steady import Steady
from eval.workloads import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eval.emitted import Emitted

ROOT = Path(__file__).resolve().parents[2]
STATE_STORES = "org.apache.spark.sql.execution.streaming.state"
CLUSTER_GIB = 6  # two executors of two, and the driver
COMMON = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}


@dataclass(frozen=True)
class SparkEngine(Engine):
    """A session's conf beyond `COMMON`, and whether pyslash is in it, or real-time mode.

    `below`: only what is below the aggregation, which is a floor to compare with: `noop` drops the rows,
    `kept` gives them to the sink that all others have.
    """

    checks_runs: ClassVar[bool] = True

    slash: bool = False
    real_time: bool = False
    below: str | None = None

    @property
    def aggregates(self) -> bool:  # type: ignore[override]
        """Whether it has results to compare."""
        return self.below is None and not self.real_time

    @property
    def keeps(self) -> bool:
        """Whether what it emits goes into a sink that keeps it, and not into none. Real-time mode has no such sink."""
        return self.below in (None, "kept") and not self.real_time

    def settings(self, memory: int, given: dict[str, str]) -> dict[str, str]:
        """Every key of the session."""
        return {
            **COMMON,
            "spark.master": f"local[{CORES}]",
            "spark.driver.memory": f"{memory}g",
            **self.conf,
            **given,
        }

    def heaps_gib(self, memory: int) -> int:
        """The driver's, which in local mode is the executor's; else those of two executors, too."""
        return CLUSTER_GIB if "spark.master" in self.conf else memory

    def open(self, settings: dict[str, str]) -> Runner:
        """A session in this process.

        Raises:
            CannotRunError: this pyslash lacks a key that makes the engine what its name says.
        """
        if self.slash:
            from pyslash.conf import KEYS, PREFIX

            if unknown := [key for key in settings if key.startswith(PREFIX) and key not in KEYS]:
                raise CannotRunError(f"this pyslash has no {', '.join(unknown)}")
        return SparkRunner(self, settings)

    def result(self, workload: Workload, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        """What the engine does with the rows."""
        return workload.query(spark, rows, folder) if self.below is None else workload.below(spark, rows, folder)


class SparkRunner:
    """A live session."""

    def __init__(self, engine: SparkEngine, settings: dict[str, str]) -> None:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers unpickle the workloads' functions, by reference to this package.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        # Driver memory cannot be set once the JVM runs, so it goes to the command that starts it.
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {settings['spark.driver.memory']} pyspark-shell"
        self._engine = engine
        self._emitted: Emitted | None = None
        self.spark = SparkSession.builder.appName(f"eval {engine.name}").config(map=settings).getOrCreate()
        if engine.slash:
            import pyslash

            pyslash.enable(self.spark)

    def run(self, workload: Workload, folder: Path) -> dict[str, Any]:
        """See `eval.stream.run`; what was emitted is kept until the next run."""
        self._forget()
        figures, self._emitted = stream.run(self.spark, self._engine, workload, folder)
        return figures

    def steady(self, workload: Workload, folder: Path, rule: Steady) -> dict[str, Any]:
        """See `eval.stream.steady`."""
        return stream.steady(self.spark, self._engine, workload, folder, rule)

    def check(self, workload: Workload, folder: Path) -> tuple[bool, int]:
        """Compare what the last run emitted."""
        if self._emitted is None:
            raise RuntimeError(f"{self._engine.name} has kept no rows to compare")
        return self._emitted.agrees(folder)

    def differences(self, workload: Workload, folder: Path) -> list[str]:
        """See `eval.stream.differences`."""
        return stream.differences(self.spark, self._engine, workload, folder)

    def oracle(self, workload: Workload, folder: Path) -> None:
        """See `eval.oracle.write`."""
        oracle.write(self.spark, workload, folder)

    def close(self) -> None:
        """Stop the session."""
        self._forget()
        self.spark.stop()

    def _forget(self) -> None:
        if self._emitted is not None:
            self._emitted.close()
        self._emitted = None


def _slash(name: str, **conf: str) -> SparkEngine:
    own = {f"spark.slash.{key}": value for key, value in conf.items()}
    # Without `require` a query that is not covered would be measured as pyslash while plain Spark ran it. Figures are
    # kept of every epoch, also of the longest stream.
    always = {"spark.slash.mode": "require", "spark.slash.progress.retained": "10000"}
    return SparkEngine(name, {**always, **own}, slash=True)


def _on_two_executors(engine: SparkEngine) -> SparkEngine:
    """The same with two processes of one core each, so that what moves between executors moves."""
    cluster = {
        "spark.master": "local-cluster[2,1,2048]",
        "spark.executor.memory": "2g",
        "spark.driver.memory": f"{CLUSTER_GIB - 4}g",
    }
    return SparkEngine(f"{engine.name}-2x", {**engine.conf, **cluster}, slash=engine.slash)


ROCKSDB_AS_IT_COMES = {
    "spark.sql.streaming.stateStore.providerClass": f"{STATE_STORES}.RocksDBStateStoreProvider",
}
# As Spark's guide to structured streaming tunes it: a commit is a change log, no row is looked up to be counted, and a
# store's cache (8 MB by default) holds what it works on.
_ROCKSDB = SparkEngine(
    "spark-rocksdb",
    {
        **ROCKSDB_AS_IT_COMES,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB": "512",
    },
)
_HDFS = SparkEngine(
    "spark-hdfs",
    {"spark.sql.streaming.stateStore.providerClass": f"{STATE_STORES}.HDFSBackedStateStoreProvider"},
)
_SLASH = _slash("slash", ingest="auto")
_SHM, _TCP = (_slash(f"slash-{name}", ingest="auto", transport=name) for name in ("shm", "tcp"))
_REPARTITION = _slash("slash-repartition", ingest="auto", strategy="repartition")

SPARK_ENGINES = (
    _SLASH,
    _slash("slash-files", ingest="files"),
    _slash("slash-rows", ingest="rows"),
    _SHM,
    _TCP,
    _REPARTITION,
    SparkEngine("slash-processors", {**ROCKSDB_AS_IT_COMES, **_SLASH.conf}, slash=True),  # Spark asks for that store
    *map(_on_two_executors, (_SLASH, _SHM, _TCP, _REPARTITION)),
    _ROCKSDB,
    SparkEngine("spark-rocksdb-default", ROCKSDB_AS_IT_COMES),
    _HDFS,
    SparkEngine(
        "spark-rtm", {**_ROCKSDB.conf, "spark.sql.streaming.realTimeMode.allowlistCheck": "false"}, real_time=True
    ),
    # Floors: the same source, and no aggregation at all.
    SparkEngine("stateless", below="kept"),
    SparkEngine("noop", below="noop"),
)
