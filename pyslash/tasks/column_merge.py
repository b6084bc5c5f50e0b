"""Merge tasks without Python: the executors' JVMs map the arenas, merge natively, and Spark reads the columns in place.

Only shared memory can be read this way: all executors have to be on one host, and no block on an agent's disk.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.tasks.merge import Kept, MergeRequest
from pyslash.tasks.row_bridge import RowBridge


class ColumnMerge:
    """Makes Datasets that merge when they are run."""

    def __init__(self, session: SparkSession) -> None:
        """Adds the jar to the session's application, if it is not there yet.

        Raises:
            RowBridgeUnavailableError: the jar is missing, or cannot be added.
        """
        self._bridge = RowBridge(session).java
        java_session: Any = session._jsparkSession
        self._context = java_session.sparkContext()
        self._read = self._context.longAccumulator("bytes read by pyslash")
        self._given = self._context.longAccumulator("rows merged by pyslash")
        self._mapped: dict[frozenset[AgentDescriptor], bool] = {}

    @property
    def bytes_read(self) -> int:
        """What merge tasks have read out of arenas so far."""
        return int(self._read.value())

    @property
    def rows_given(self) -> int:
        """Merged rows that tasks have given so far."""
        return int(self._given.value())

    def obstacle(self, session: SparkSession, request: MergeRequest) -> str | None:
        """Why these blocks cannot be merged so; None if they can."""
        if request.transport not in ("auto", "shm"):
            return f"spark.slash.transport={request.transport}"
        if request.spilled:
            return "there are blocks on an agent's disk"
        if not self._bridge.onOneHost():
            return "executors are on more than one host"
        agents = frozenset(agent for agent, _ in request.blocks)
        if agents not in self._mapped:
            descriptors = [agent.to_json() for agent in agents]
            self._mapped = {agents: bool(self._bridge.canMap(session._jsparkSession, descriptors))}
        return None if self._mapped[agents] else "an executor cannot map the arenas"

    def rows(
        self, session: SparkSession, request: MergeRequest, schema: StructType, tasks: int, kept: Kept | None
    ) -> DataFrame:
        """The merged rows; nothing is read before a job runs over them. Of `kept` groups only changes are read."""
        agents = list(dict.fromkeys(agent for agent, _ in request.blocks))
        place = {agent: index for index, agent in enumerate(agents)}
        order = {
            "plan": request.plan,
            "windows": request.windows,
            "changed_in": request.changed_in,
            "agents": [agent.to_json() for agent in agents],
            "blocks": [[place[agent], _base64(raw)] for agent, raw in request.blocks],
            "home": None if kept is None else _home(request.query_id, kept),
        }
        merged = self._bridge.merge(
            session._jsparkSession, json.dumps(order), schema.json(), tasks, self._read, self._given
        )
        return DataFrame(merged, session)

    def forget(self, query_id: bytes) -> None:
        """Have executors let go of the groups that they keep of a query."""
        self._bridge.closeHomes(self._context, bytearray(query_id))


def _home(query_id: bytes, kept: Kept) -> dict[str, Any]:
    return {
        "query": _base64(query_id),
        "before": _base64(kept.before.encode()),
        "version": _base64(kept.version.encode()),
        "epoch": kept.epoch,
        "evicted_us": kept.evicted_us,
        "pane": kept.pane,
        "closing_us": kept.closing_us,
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
