"""Which agents take a state over when a run begins: those that answer, and others only where these are too few."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.conf import Conf
from pyslash.driver import agent_search
from pyslash.driver.agent_search import AgentSearch
from pyslash.protocol.descriptor import AgentDescriptor

SECRET = secrets.token_bytes(32)


def agent(name: str) -> AgentDescriptor:
    return AgentDescriptor(1, 1, 3, 1 << 20, name, "/s", "127.0.0.1", 1, "host", "/l", "")


KNOWN = [agent(name) for name in "abc"]


class Search:
    """`find_agents` and a group's probe, with the answers of a test."""

    def __init__(
        self, durability: str, answering: str, silent: bool = False, ingest: str = "auto", found: str = "n"
    ) -> None:
        self.found: list[bool] = []
        self._finds = found
        self.search = AgentSearch(self._conf(durability, ingest), SECRET)
        self._probed = [agent(name) for name in answering], silent

    @staticmethod
    def _conf(durability: str, ingest: str) -> Conf:
        given = {"spark.slash.durability": durability, "spark.slash.ingest": ingest}
        return Conf.read(lambda name, default: given.get(name, default))

    def agents(self, monkeypatch: pytest.MonkeyPatch, files: int) -> Any:
        """Those that the state goes to."""

        def find(session: Any, secret: bytes, arena: int, timeout: int, by_worker: bool) -> list[AgentDescriptor]:
            self.found.append(by_worker)
            return [agent(name) for name in ("n" if by_worker else self._finds)]

        monkeypatch.setattr(agent_search, "find_agents", find)
        group: Any = SimpleNamespace(probe=lambda agents: self._probed)
        newest: Any = SimpleNamespace(agents=KNOWN)
        durable: Any = SimpleNamespace(files=[None] * files)
        session: Any = None
        return [one.incarnation for one in self.search.for_run(session, group, newest, durable)]


@pytest.mark.parametrize(
    ("search", "files", "agents", "jobs"),
    [
        (Search("checkpoint", "a"), 1, ["a"], []),
        (Search("checkpoint", ""), 1, ["n"], [False]),
        (Search("checkpoint", ""), 0, [], []),
        (Search("checkpoint", "ab", silent=True), 1, ["n"], [True]),
        (Search("checkpoint", "", ingest="arrow"), 1, ["n"], [True]),
        (Search("checkpoint", "", found="an"), 1, ["n"], [False, True]),
        (Search("both", "abc"), 1, ["a", "b", "c"], []),
        (Search("both", "ab", found="abn"), 1, ["a", "b", "n"], [False]),  # any agent may keep the replica of c
        (Search("both", "a", found="an"), 1, ["a", "n"], [False]),
        (Search("both", "a"), 1, ["n"], [False]),
        (Search("replica", ""), 0, ["n"], [False]),
    ],
)
def test_a_job_looks_for_agents_only_where_too_few_answer(
    monkeypatch: pytest.MonkeyPatch, search: Search, files: int, agents: list[str], jobs: list[bool]
) -> None:
    assert search.agents(monkeypatch, files) == agents
    assert search.found == jobs


@pytest.mark.parametrize(
    ("durability", "agents", "executors", "met"),
    [("both", 1, 2, ["new"]), ("both", 1, 1, []), ("both", 2, 3, []), ("checkpoint", 1, 2, [])],
)
def test_an_agent_that_is_alone_gets_a_standby_once_there_is_an_executor_for_it(
    monkeypatch: pytest.MonkeyPatch, durability: str, agents: int, executors: int, met: list[str]
) -> None:
    search = Search(durability, "")
    monkeypatch.setattr(agent_search, "executors", lambda session: executors)
    monkeypatch.setattr(agent_search, "find_agents", lambda *_: ["new"])
    session: Any = None
    assert search.search.standby(session, KNOWN[:agents]) == met
