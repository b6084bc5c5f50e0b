"""Which agents take a state over when a run begins: those that answer, and others only where these are too few."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from pyslash.conf import Conf
from pyslash.driver.ports import Ports
from pyslash.driver.restart.agent_search import AgentSearch
from pyslash.errors import AgentStartError
from pyslash.protocol.descriptor import AgentDescriptor

SECRET = secrets.token_bytes(32)


def agent(name: str) -> AgentDescriptor:
    return AgentDescriptor(1, 1, 3, 1 << 20, name, "/s", "127.0.0.1", 1, "host", "/l", "")


KNOWN = [agent(name) for name in "abc"]


class Search:
    """A search with the answers of a test."""

    def __init__(
        self,
        durability: str,
        answering: str,
        silent: bool = False,
        found: str = "n",
        executors: int = 1,
    ) -> None:
        self.found: list[bool] = []
        self._finds = found
        ports = Ports(find_agents=self._find, executors=lambda session: executors)
        self.search = AgentSearch(self._conf(durability), SECRET, ports)
        self._probed = [agent(name) for name in answering], silent

    @staticmethod
    def _conf(durability: str) -> Conf:
        given = {"spark.slash.durability": durability}
        return Conf.read(lambda name, default: given.get(name, default))

    def _find(self, session: Any, secret: bytes, arena: int, timeout: int, by_worker: bool) -> list[AgentDescriptor]:
        self.found.append(by_worker)
        return [agent(name) for name in ("n" if by_worker else self._finds)]

    def agents(self, files: int) -> list[str]:
        """Those that the state goes to."""
        group: Any = SimpleNamespace(probe=lambda agents: self._probed)
        newest: Any = SimpleNamespace(agents=KNOWN)
        durable: Any = SimpleNamespace(files=[None] * files)
        session: Any = None
        return [one.incarnation for one in self.search.for_run(session, group, newest, durable)]

    def standby(self, agents: int) -> list[str]:
        """Those that are met where so many have the state."""
        session: Any = None
        return [one.incarnation for one in self.search.standby(session, KNOWN[:agents])]


@pytest.mark.parametrize(
    ("search", "files", "agents", "jobs"),
    [
        (Search("checkpoint", "a"), 1, ["a"], []),
        (Search("checkpoint", ""), 1, ["n"], [False]),
        (Search("checkpoint", ""), 0, [], []),
        (Search("checkpoint", "ab", silent=True), 1, ["n"], [True]),
        (Search("checkpoint", "", found="an"), 1, ["n"], [False, True]),
        (Search("both", "abc"), 1, ["a", "b", "c"], []),
        (Search("both", "ab", found="abn"), 1, ["a", "b", "n"], [False]),  # any agent may keep the replica of c
        (Search("both", "a", found="an"), 1, ["a", "n"], [False]),
        (Search("both", "a"), 1, ["n"], [False]),
        (Search("replica", ""), 0, ["n"], [False]),
    ],
)
def test_a_job_looks_for_agents_only_where_too_few_answer(
    search: Search, files: int, agents: list[str], jobs: list[bool]
) -> None:
    assert search.agents(files) == agents
    assert search.found == jobs


@pytest.mark.parametrize(
    ("durability", "agents", "executors", "met"),
    [("both", 1, 2, ["n"]), ("both", 1, 1, []), ("both", 2, 3, []), ("checkpoint", 1, 2, [])],
)
def test_an_agent_that_is_alone_gets_a_standby_once_there_is_an_executor_for_it(
    durability: str, agents: int, executors: int, met: list[str]
) -> None:
    assert Search(durability, "", executors=executors).standby(agents) == met


@pytest.mark.parametrize("error", [AgentStartError("no room"), PySparkRuntimeError("the job was aborted")])
def test_a_standby_that_cannot_be_had_ends_no_query(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*given: Any) -> list[AgentDescriptor]:
        raise error

    session: Any = None
    ports = Ports(find_agents=fails, executors=lambda session: 2)
    assert AgentSearch(Search._conf("both"), SECRET, ports).standby(session, KNOWN[:1]) == []
    assert f"no standby could be started: {error}" in caplog.text
