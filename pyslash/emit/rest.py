"""What a merge's order does not say: tasks that keep nothing of the version before ask the driver for all blocks."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from pyslash.plan.catalyst import JavaObject
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.state.version import StateVersion, heads_of


class Rest:
    """Answers the tasks of one run of an operator, as of the version of its last order."""

    def __init__(self, session: SparkSession, bridge: JvmBridge) -> None:
        """Nobody can ask yet."""
        self._session = session
        self._bridge = bridge
        self._answers: JavaObject | None = None
        self._version: StateVersion | None = None
        self._panes = (0, 0)

    def of(self, version: StateVersion, panes: tuple[int, int]) -> list[str]:
        """Where tasks ask for the blocks with groups of these panes (first, end), as `MergeSpec` takes it."""
        if self._answers is None:
            gateway: Any = self._session.sparkContext._gateway
            ensure_callback_server_started(gateway)
            self._answers = self._bridge.java.answers(self)
        self._version, self._panes = version, panes
        return [str(self._answers.name()), str(version.number)]

    def apply(self, number: str) -> str:
        """The blocks of a version, as JSON; empty if there is a later one. The name is the Java interface's."""
        assert self._version is not None
        blocks = self._version.within_as_of(int(number), *self._panes)
        return "" if blocks is None else json.dumps(blocks_record(heads_of(blocks)))

    def close(self) -> None:
        """Nobody asks any more."""
        if self._answers is not None:
            self._answers.close()
            self._answers = None

    class Java:
        """The interface that py4j implements with this class."""

        implements = ("java.util.function.Function",)


def blocks_record(blocks: Sequence[tuple[AgentDescriptor, bytes]]) -> dict[str, Any]:
    """(Agent, raw head) of each block, as `MergeSpec` reads them."""
    agents = list(dict.fromkeys(agent for agent, _ in blocks))
    place = {agent: index for index, agent in enumerate(agents)}
    return {
        "agents": [agent.to_json() for agent in agents],
        "blocks": [[place[agent], base64.b64encode(raw).decode()] for agent, raw in blocks],
    }
