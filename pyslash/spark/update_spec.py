"""What the JVM is told of an update job, in one argument: py4j makes a call for each element and field of an object."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession

from pyslash import errors
from pyslash.conf import Conf
from pyslash.plan.spec import PlanSpec, SessionPlace
from pyslash.units import Epoch, Micros


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """How a task in the JVM finds its executor's agent, or starts it.

    `secret` is the application's, 32 bytes. `arena_bytes` are those of an agent that starts, which `python` runs (None:
    the executor's PYSPARK_PYTHON), and which has `start_timeout_seconds` for it. In `runtime_dir` agents meet their
    executors (None: below the temporary directory).
    """

    secret: bytes = field(repr=False)
    arena_bytes: int
    python: str | None = None
    runtime_dir: str | None = None
    start_timeout_seconds: int = 30

    @classmethod
    def of(cls, session: SparkSession, secret: bytes, conf: Conf) -> Self:
        """As an application is configured; its executors run the driver's Python."""
        return cls(
            secret=secret,
            arena_bytes=conf.arena_bytes,
            python=session.sparkContext.pythonExec,
            start_timeout_seconds=conf.agent_start_timeout,
        )

    def record(self) -> dict[str, Any]:
        """As the JVM's `AgentOrder` reads it."""
        return {
            "secret": base64.b64encode(self.secret).decode(),
            "arena_bytes": self.arena_bytes,
            "python": self.python,
            "python_path": _python_path(),
            "runtime_dir": self.runtime_dir,
            "start_timeout_seconds": self.start_timeout_seconds,
        }


@dataclass(frozen=True, kw_only=True)
class UpdateSpec:
    """An update job of an epoch of a query (16-byte id), by the plan that its rows are grouped by.

    `place` is where its sessions go, of a plan that has them. Rows whose last window ended at or before `watermark_us`
    are late. `reads_json`, `reads_csv`, `reads_avro`: whether native code reads what it is certain to read as Spark
    does; `reads_kafka`: whether executors fetch records of topics past Spark's reader.
    """

    plan: PlanSpec
    watermark_us: Micros
    query: bytes
    epoch: Epoch
    agent: AgentSpec
    place: SessionPlace | None = None
    reads_json: bool = True
    reads_csv: bool = True
    reads_avro: bool = True
    reads_kafka: bool = True

    def to_json(self) -> str:
        """As the JVM's `UpdateSpec` reads it."""
        return json.dumps(
            {
                "plan": self.plan.placed(self.place),
                "keeps_timeless": self.plan.moments or self.plan.deduplicates,
                "watermark_us": self.watermark_us,
                "query": base64.b64encode(self.query).decode(),
                "epoch": self.epoch,
                "agent": self.agent.record(),
                "reads_json": self.reads_json,
                "reads_csv": self.reads_csv,
                "reads_avro": self.reads_avro,
                "reads_kafka": self.reads_kafka,
            }
        )


def _python_path() -> str | None:
    """Where this process imports pyslash from, if that is a source tree; an installation is on every Python's path."""
    tree = Path(errors.__file__).resolve().parents[1]
    return None if tree.name in ("site-packages", "dist-packages") else str(tree)
