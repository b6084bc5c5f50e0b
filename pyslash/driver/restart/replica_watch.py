"""Replicas between epochs: a query that lacks some gets them beside its own thread."""

from __future__ import annotations

import logging
import threading

from pyslash.conf import Conf
from pyslash.driver.background_task import BackgroundTask
from pyslash.driver.ports import Ports
from pyslash.driver.restart.agent_search import AgentSearch
from pyslash.driver.restart.recovery import RunState
from pyslash.spark.execution import SparkBatch

logger = logging.getLogger("pyslash")


class ReplicaWatch:
    """Sees to the replicas of one operator's state.

    `lock` is held while what agents are told changes, by the query's thread and by the one that works beside it, and
    not while tasks run.
    """

    def __init__(self, conf: Conf, search: AgentSearch, ports: Ports) -> None:
        self.lock = threading.RLock()
        self._conf = conf
        self._search = search
        self._ports = ports
        self._state: RunState | None = None
        self._repeated: BackgroundTask | None = None
        self._has_standby = True  # until it turns out otherwise, which is said once

    def look(self, execution: SparkBatch, state: RunState) -> None:
        """Have what this run's state lacks sent from time to time, until it is complete or the run ends."""
        self._state = state
        if self._lacks_replicas(state):
            if self._repeated is None:
                self._repeated = self._ports.background_task(
                    lambda: self.replicate_again(execution),
                    "pyslash replicas",
                    lambda error: logger.warning("replicas could not be sent between epochs: %s", error),
                )
            self._repeated.wake()

    def replicate_again(self, execution: SparkBatch) -> bool:
        """Beside the query's own thread: start a standby if there is none, and have incomplete replicas sent again.

        Returns whether it has to be called again.
        """
        state = self._state
        if state is None or not execution.is_active:
            return False
        found = self._search.standby(execution.session, state.coordinator.agents)
        with self.lock:
            if state is not self._state:
                return False
            state.coordinator.group.add_agents(found)
            if not state.coordinator.replicas.missing():
                return self._lacks_replicas(state)
            # No room is made for them: merges may be reading what would be spilled.
            size = state.coordinator.replicas.resync(self._conf.transport, may_spill=False)
            logger.info("replicas between epochs: %d bytes", size)
            return not state.coordinator.replicas.missing() and self._lacks_replicas(state)

    def warn_without(self, standbys: dict[str, str]) -> None:
        """Say once that an epoch was stored without a replica."""
        if not standbys and self._has_standby:
            logger.warning(
                "spark.slash.durability=%s: there is only one agent, so nothing is replicated until another executor "
                "starts one",
                self._conf.durability,
            )
        self._has_standby = bool(standbys)

    def close(self) -> None:
        """The run has ended."""
        self._state = None
        if self._repeated is not None:
            self._repeated.close()
            self._repeated = None

    def _lacks_replicas(self, state: RunState) -> bool:
        if not self._conf.replicates:
            return False
        return len(state.coordinator.agents) < 2 or bool(state.coordinator.replicas.missing())
