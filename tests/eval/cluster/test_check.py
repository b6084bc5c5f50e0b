"""The check of hosts: this machine's own doctor, and hosts that are not fit."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from eval.cluster.check import check_hosts
from eval.cluster.hosts import Host
from eval.cluster.launcher import Local


class Scripted:
    """Hosts whose doctors give set answers; a host of another name does not see the data."""

    def __init__(self, answers: dict[str, str], sees: str) -> None:
        self.answers, self.sees = answers, sees

    def wrap(self, host: Host, command: Sequence[str]) -> list[str]:
        """Instead of the command: its answer."""
        if command[1] == "test" or "test" in command:
            return ["true" if host.name == self.sees else "false"]
        return ["printf", "%s", self.answers[host.name]]


def answer(python: str, **more: str) -> str:
    findings = [{"check": "python", "status": "ok", "found": python, "fix": ""}]
    if more:
        findings.append({"check": "rdma read", "status": "failure", "found": "refused", "fix": "ask", **more})
    return json.dumps({"ok": not more, "findings": findings}, indent=2)


def test_this_machine_is_fit_twice(tmp_path: Path) -> None:
    hosts = [Host("127.0.0.1", 1), Host("127.0.0.2", 1)]
    verdicts = check_hosts(Local(), hosts, sys.executable, tmp_path / "data")
    assert [verdict.problems for verdict in verdicts] == [[], []]
    assert all("auto" in str(verdict) for verdict in verdicts)
    assert list((tmp_path / "data").iterdir()) == []


def test_every_problem_of_a_host_is_told(tmp_path: Path) -> None:
    answers = {"a": "Welcome!\n" + answer("3.11.7, /x"), "b": answer("3.12.1, /x", check="rdma read"), "c": "no python"}
    hosts = [Host(name, 1) for name in answers]
    first, second, third = check_hosts(Scripted(answers, "a"), hosts, "python", tmp_path)
    assert first.problems == []
    assert second.problems[0] == "rdma read: refused -> ask"
    assert "does not see" in second.problems[1]
    assert second.problems[2] == "python: 3.12.1, /x, but 3.11.7, /x on the first host"
    assert "no answer from pyslash doctor" in third.problems[0]
    assert str(third).startswith(" FAIL  c (1 slots)")


def test_a_python_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    (verdict,) = check_hosts(Local(), [Host("a", 1)], "/no/such/python", tmp_path)
    assert "/no/such/python" in verdict.problems[0]
