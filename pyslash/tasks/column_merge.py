"""Tasks without Python: the executors' JVMs map the arenas, merge or join natively, and Spark reads the result.

This reads shared memory only: all executors have to be on one host, and no block may be on an agent's disk.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyslash.plan.catalyst import JavaObject
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.tasks.merge import Kept, MergeRequest
from pyslash.tasks.row_bridge import RowBridge


@dataclass(frozen=True)
class JoinRequest:
    """What to join: the JVM's operator of the micro-batch, the plan's text, (agent, raw head) of all live blocks."""

    operator: Any
    plan: str
    blocks: list[tuple[AgentDescriptor, bytes]]
    query_id: bytes


class ColumnMerge:
    """Makes Datasets that merge when they run."""

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
        self._counted = (0, 0)  # bytes, rows
        self._mapped: dict[frozenset[AgentDescriptor], bool] = {}

    def new_counts(self) -> tuple[int, int]:
        """Bytes that tasks have read from arenas, and rows that they have returned, since the last call."""
        now, before = (int(self._read.value()), int(self._given.value())), self._counted
        self._counted = now
        return now[0] - before[0], now[1] - before[1]

    @property
    def on_one_host(self) -> bool:
        """Whether all executors run on one host."""
        return bool(self._bridge.onOneHost())

    def obstacle(
        self, session: SparkSession, agents: frozenset[AgentDescriptor], transport: str, spilled: bool
    ) -> str | None:
        """Why blocks of these agents cannot be read in shared memory; None if they can.

        Args:
            session: of the query.
            agents: who holds the blocks.
            transport: `spark.slash.transport`.
            spilled: one of them is on its agent's disk.
        """
        if transport not in ("auto", "shm"):
            return f"spark.slash.transport={transport}"
        if spilled:
            return "there are blocks on an agent's disk"
        if not self.on_one_host:
            return "executors are on more than one host"
        if agents not in self._mapped:
            descriptors = [agent.to_json() for agent in agents]
            self._mapped = {agents: bool(self._bridge.canMap(session._jsparkSession, descriptors))}
        return None if self._mapped[agents] else "an executor cannot map the arenas"

    def rows(
        self, session: SparkSession, request: MergeRequest, schema: StructType, tasks: int, kept: Kept | None
    ) -> DataFrame:
        """The merged rows. Nothing is read before a job runs over them, and of `kept` groups only changes are read."""
        home = None if kept is None else _home(request.query_id, kept)
        order = _order(request.plan, request.blocks, home, request.windows, request.changed_in)
        merged = self._bridge.merge(session._jsparkSession, order, schema.json(), tasks, self._read, self._given)
        return DataFrame(merged, session)

    def joined(self, join: JoinRequest, kept: Kept, tasks: int, keeps: bool) -> JavaObject:
        """The micro-batch's plan over the joined rows. Nothing is read before a job runs over them.

        Args:
            join: what to join.
            kept: the states before and after the micro-batch.
            tasks: so many ranges of keys.
            keeps: tasks leave what they have read in their executors' memory, for the next micro-batch.
        """
        order = _order(join.plan, join.blocks, _home(join.query_id, kept))
        return self._bridge.joined(join.operator, order, tasks, keeps, self._read, self._given)

    def forget(self, query_id: bytes) -> None:
        """Have executors drop the groups that they keep of a query."""
        self._bridge.closeHomes(self._context, bytearray(query_id))


def _order(
    plan: str,
    blocks: Sequence[tuple[AgentDescriptor, bytes]],
    home: dict[str, Any] | None,
    windows: Sequence[int] = (),
    changed_in: int | None = None,
) -> str:
    """What tasks are told, as the JVM's `MergeOrder` reads it."""
    agents = list(dict.fromkeys(agent for agent, _ in blocks))
    place = {agent: index for index, agent in enumerate(agents)}
    return json.dumps(
        {
            "plan": plan,
            "windows": windows,
            "changed_in": changed_in,
            "agents": [agent.to_json() for agent in agents],
            "blocks": [[place[agent], _base64(raw)] for agent, raw in blocks],
            "home": home,
        }
    )


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
