"""Tasks without Python: the executors' JVMs merge or join natively, and Spark reads the result.

A task maps the arenas of its host. What lies elsewhere, or on a disk, its executor's agent brings (docs/design/030).
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyslash.emit.merge import HomeUpdate, MergeRequest
from pyslash.emit.rest import Rest, blocks_record
from pyslash.epoch_progress import ABOVE_NS, MERGE_NS, MERGED_ROWS
from pyslash.plan.catalyst import JavaObject
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.update_spec import AgentSpec
from pyslash.state.version import StateVersion
from pyslash.units import ALL_PANES, Epoch

HOMES, HOME_GROUPS = "homes", "groups"


@dataclass(frozen=True)
class ReadOptions:
    """How tasks read blocks that are not in their host's memory: by their own agent, which they start if need be.

    `token` is for reading; `transport` a conf's; `timeout_seconds` bounds each read.
    """

    query_id: bytes
    token: bytes = field(repr=False)
    transport: str
    timeout_seconds: float
    agent: AgentSpec

    def record(self) -> dict[str, Any]:
        """As the JVM's `MergeSpec` reads it."""
        return {
            "query": _base64(self.query_id),
            "token": _base64(self.token),
            "transport": self.transport,
            "timeout_seconds": math.ceil(self.timeout_seconds),
            "agent": self.agent.record(),
        }


@dataclass(frozen=True)
class JoinRequest:
    """What to join: the JVM's operator of the micro-batch, the plan's text, (agent, raw head) of the blocks to read."""

    operator: Any
    plan: str
    blocks: list[tuple[AgentDescriptor, bytes]]


class ColumnMerge:
    """Makes Datasets that merge when they run."""

    def __init__(self, session: SparkSession, reading: ReadOptions) -> None:
        """Adds the jar to the session's application, if it is not there yet.

        Raises:
            RowBridgeUnavailableError: the jar is missing, or cannot be added.
        """
        bridge = JvmBridge(session)
        self._bridge = bridge.java
        self._rest = Rest(session, bridge)
        java_session: Any = session._jsparkSession
        self._reading = reading
        self._context = java_session.sparkContext()
        self._counts = self._bridge.mergeCounts(self._context)
        self._counted: dict[str, int] = {}

    def new_counts(self) -> dict[str, int]:
        """What tasks have done since the last call: bytes read, by transport; `MERGED_ROWS`; `MERGE_NS`; `ABOVE_NS`;
        `HOMES` that they have opened, `HOME_GROUPS` in these.
        """
        told = json.loads(self._counts.soFar())
        now = {
            **told["bytes_read"],
            MERGED_ROWS: told["rows"],
            MERGE_NS: told["merge_ns"],
            ABOVE_NS: told["above_ns"],
            HOMES: told["homes"],
            HOME_GROUPS: told["groups"],
        }
        new = {name: count - self._counted.get(name, 0) for name, count in now.items()}
        self._counted = now
        return new

    def rows(
        self,
        session: SparkSession,
        request: MergeRequest,
        schema: StructType,
        tasks: int,
        kept: HomeUpdate | None = None,
        keeps: bool = False,
        rest: StateVersion | None = None,
    ) -> DataFrame:
        """The merged rows. Nothing is read before a job runs over them.

        Args:
            session: the micro-batch's.
            request: what to merge.
            schema: of the rows.
            tasks: so many ranges of keys.
            kept: the states before and after the micro-batch, where groups are folded before they are read.
            keeps: tasks leave these groups in their executors' memory, and the next micro-batch reads only changes.
            rest: all that is live, where the request has the changes alone: tasks that keep nothing ask for it.
        """
        panes = request.panes
        order = self._order(request.plan, request.blocks, kept, panes, rest, request.windows, request.changed_in)
        merged = self._bridge.merge(session._jsparkSession, order, schema.json(), tasks, keeps, self._counts)
        return DataFrame(merged, session)

    def joined(
        self, join: JoinRequest, kept: HomeUpdate, tasks: int, keeps: bool, rest: StateVersion | None
    ) -> JavaObject:
        """The micro-batch's plan over the joined rows. Nothing is read before a job runs over them.

        Args:
            join: what to join.
            kept: the states before and after the micro-batch.
            tasks: so many ranges of keys.
            keeps: tasks leave what they have read in their executors' memory, for the next micro-batch.
            rest: as `rows` takes it.
        """
        order = self._order(join.plan, join.blocks, kept, ALL_PANES, rest)
        return self._bridge.joined(join.operator, order, tasks, keeps, self._counts)

    def forget(self) -> None:
        """Have executors drop what they keep of the query."""
        self._bridge.closeHomes(self._context, bytearray(self._reading.query_id))

    def close(self) -> None:
        """The run is over: tasks ask nothing any more."""
        self._rest.close()

    def _order(
        self,
        plan: str,
        blocks: Sequence[tuple[AgentDescriptor, bytes]],
        kept: HomeUpdate | None,
        panes: tuple[int, int],
        rest: StateVersion | None = None,
        windows: Sequence[int] = (),
        changed_in: Epoch | None = None,
    ) -> str:
        """What tasks are told, as the JVM's `MergeSpec` reads it."""
        return json.dumps(
            {
                "plan": plan,
                "windows": windows,
                "changed_in": changed_in,
                "panes": panes,
                **blocks_record(blocks),
                "rest": None if rest is None else self._rest.of(rest, panes),
                "reading": self._reading.record(),
                "home": None if kept is None else _home(self._reading.query_id, kept),
            }
        )


def _home(query_id: bytes, kept: HomeUpdate) -> dict[str, Any]:
    return {
        "query": _base64(query_id),
        "before": _base64(kept.step.before.encode()),
        "version": _base64(kept.step.after.encode()),
        "epoch": kept.epoch,
        "evicted_us": kept.evicted_us,
        "pane": kept.pane,
        "closing_us": kept.closing_us,
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
