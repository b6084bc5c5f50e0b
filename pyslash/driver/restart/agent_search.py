"""Which agents hold a query's state, and its replicas: those that it has had, or others, where too few are left."""

from __future__ import annotations

import logging
from collections.abc import Collection

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyslash.cluster.agent_group import AgentGroup
from pyslash.conf import Conf
from pyslash.driver.ports import Ports
from pyslash.errors import SlashError
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.durable import DurableState
from pyslash.state.manifest import Manifest

logger = logging.getLogger("pyslash")


class AgentSearch:
    """Finds them for one query. `known` are the agents of the run before, by incarnation, which may keep replicas."""

    def __init__(self, conf: Conf, secret: bytes, ports: Ports) -> None:
        self.known: dict[str, AgentDescriptor] = {}
        self._conf = conf
        self._secret = secret
        self._ports = ports

    def remember(self, agents: Collection[AgentDescriptor]) -> None:
        """The agents of this run, for the next one."""
        self.known = {agent.incarnation: agent for agent in agents}

    def standby(self, session: SparkSession, agents: Collection[AgentDescriptor]) -> list[AgentDescriptor]:
        """If one agent alone (of `agents`) has the state and another executor is running by now: the agents of both."""
        if self._conf.replicates and len(agents) == 1:
            try:
                return self.beyond(session, agents)
            except (SlashError, PySparkException, Py4JJavaError) as error:  # a query goes on without one
                logger.warning("no standby could be started: %s", error)
        return []

    def beyond(self, session: SparkSession, agents: Collection[AgentDescriptor]) -> list[AgentDescriptor]:
        """Those of all executors, if there are more executors than these agents."""
        return self._find(session) if self._ports.executors(session) > len(agents) else []

    def for_run(
        self, session: SparkSession, group: AgentGroup, newest: Manifest | None, durable: DurableState | None
    ) -> list[AgentDescriptor]:
        """Agents for the state and for its replicas: those that the query has had, or where too few of them are left,
        those of the executors that are there now.
        """
        wanted = 2 if self._conf.replicates else int(durable is not None and bool(durable.files))
        if not wanted:
            return []
        named = {agent.incarnation: agent for agent in newest.agents} if newest is not None else {}
        known = list({**named, **self.known}.values())
        answering, silent = group.probe(known)
        # Of one that is lost, an agent that the manifest does not name may have the replica.
        whole = not self._conf.replicates or named.keys() <= {agent.incarnation for agent in answering}
        if len(answering) >= wanted and not silent and whole:
            return answering
        found = self._find(session, silent)
        gone = {agent.incarnation for agent in known} - {agent.incarnation for agent in answering}
        if gone.isdisjoint(agent.incarnation for agent in found):
            return found
        # One that was killed a moment ago has closed its socket, and is yet a process: its JVM has taken it for alive.
        return self._find(session, by_worker=True)

    def _find(self, session: SparkSession, by_worker: bool = False) -> list[AgentDescriptor]:
        conf = self._conf
        return self._ports.find_agents(session, self._secret, conf.arena_bytes, conf.agent_start_timeout, by_worker)
