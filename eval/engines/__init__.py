"""The engines, by name."""

from __future__ import annotations

from eval.engines.base import BATCH, CORES, STREAMING, Engine, Runner
from eval.engines.duckdb import DuckDb
from eval.engines.flink import Flink
from eval.engines.polars import Polars
from eval.engines.spark import SPARK_ENGINES, SparkEngine
from eval.refusal import CannotRunError

_OTHERS = (Flink("flink"), Flink("flink-rocksdb", backend="rocksdb"), DuckDb("duckdb"), Polars("polars"))
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (*SPARK_ENGINES, *_OTHERS)}

__all__ = ["BATCH", "CORES", "ENGINES", "STREAMING", "CannotRunError", "Engine", "Runner", "SparkEngine"]
