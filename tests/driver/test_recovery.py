"""Which agents take a state over when a run begins: those that answer, and others only where these are too few."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.conf import Conf
from pyslash.driver import recovery
from pyslash.driver.recovery import Recovery
from pyslash.errors import AgentStartError, CorruptBlockError
from pyslash.protocol.descriptor import AgentDescriptor

SECRET = secrets.token_bytes(32)


def agent(name: str) -> AgentDescriptor:
    return AgentDescriptor(1, 1, 3, 1 << 20, name, "/s", "127.0.0.1", 1, "host", "/l", "")


KNOWN = [agent(name) for name in "abc"]


class Search:
    """`find_agents` and a coordinator's probe, with the answers of a test."""

    def __init__(
        self, durability: str, answering: str, silent: bool = False, ingest: str = "auto", found: str = "n"
    ) -> None:
        self.found: list[bool] = []
        self._finds = found
        self.recovery = Recovery(SimpleNamespace(), self._conf(durability, ingest), SECRET)  # type: ignore[arg-type]
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

        monkeypatch.setattr(recovery, "find_agents", find)
        coordinator: Any = SimpleNamespace(group=SimpleNamespace(probe=lambda agents: self._probed))
        newest: Any = SimpleNamespace(agents=KNOWN)
        durable: Any = SimpleNamespace(files=[None] * files)
        session: Any = None
        return [one.incarnation for one in self.recovery._agents(session, coordinator, newest, durable)]


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
    monkeypatch.setattr(recovery, "executors", lambda session: executors)
    monkeypatch.setattr(recovery, "find_agents", lambda *_: ["new"])
    coordinator: Any = SimpleNamespace(agents=KNOWN[:agents])
    session: Any = None
    assert search.recovery.find_standby(session, coordinator) == met


def test_what_may_pass_is_tried_again_and_what_is_wrong_with_a_file_is_not() -> None:
    made = Search("checkpoint", "").recovery
    assert made.may_succeed_after(RuntimeError("a job failed"))
    assert made.may_succeed_after(AgentStartError("no answer within 30 s"))
    assert not made.may_succeed_after(CorruptBlockError("torn"))
