"""The engines, by name."""

from __future__ import annotations

from eval.engines.base import BATCH, CORES, STREAMING, CannotRunError, Engine, Runner
from eval.engines.duckdb import DuckDb
from eval.engines.polars import Polars
from eval.engines.spark import SPARK_ENGINES, SparkEngine

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (*SPARK_ENGINES, DuckDb("duckdb"), Polars("polars"))}

__all__ = ["BATCH", "CORES", "ENGINES", "STREAMING", "CannotRunError", "Engine", "Runner", "SparkEngine"]
