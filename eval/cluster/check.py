"""Is every host fit: what its own `pyslash doctor` says, that all have the same software, and that all see the data."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from eval.cluster.hosts import Host
from eval.cluster.launcher import ClusterError, Launcher, run

DOCTOR_SECONDS = 120
_DOCTOR = "import sys; from pyslash.cli import main; sys.exit(main())"
# What driver and executors must have alike.
_ALIKE = ("python", "spark")


@dataclass
class Verdict:
    """What is wrong with a host (`problems`, each a line), and what its doctor found."""

    host: Host
    problems: list[str] = field(default_factory=list)
    findings: dict[str, dict[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{'ok' if not self.problems else 'FAIL':>5}  {self.host}"]
        transport = self.findings.get("transport")
        if transport:
            lines[0] += f": {transport['found']}"
        return "\n".join([*lines, *(f"{'':7}{problem}" for problem in self.problems)])


def check_hosts(launcher: Launcher, hosts: Sequence[Host], python: str, data: Path) -> list[Verdict]:
    """A verdict for each host, all asked at once.

    Args:
        launcher: to reach them.
        hosts: a host that names a device has failed if an RDMA READ through it fails.
        python: of the environment with pyslash, the same path on all hosts.
        data: a folder that is to be the same on all hosts.
    """
    # A new name each time: a network file system may remember that there was no such file.
    marker = data / f".seen-by-all-hosts-{secrets.token_hex(4)}"
    data.mkdir(parents=True, exist_ok=True)
    marker.touch()
    with ThreadPoolExecutor(min(32, len(hosts))) as pool:
        verdicts = list(pool.map(lambda host: _check(launcher, host, python, marker), hosts))
    marker.unlink()
    for check in _ALIKE:
        found = {
            verdict.host.name: verdict.findings[check]["found"] for verdict in verdicts if check in verdict.findings
        }
        expected = next(iter(found.values()), None)
        for verdict in verdicts:
            if verdict.host.name in found and found[verdict.host.name] != expected:
                verdict.problems.append(f"{check}: {found[verdict.host.name]}, but {expected} on the first host")
    return verdicts


def _check(launcher: Launcher, host: Host, python: str, marker: Path) -> Verdict:
    verdict = Verdict(host)
    device = {"PYSLASH_RDMA_DEVICE": host.device} if host.device else {}
    command = [python, "-c", _DOCTOR, "doctor", "--json", *(["--rdma"] if host.device else [])]
    try:
        done = run(launcher, host, command, device, DOCTOR_SECONDS)
        answer = _answer(done.stdout)
        if answer is None:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            verdict.problems.append(f"no answer from pyslash doctor by {python}: {last}")
            return verdict
        verdict.findings = {finding["check"]: finding for finding in answer["findings"]}
        verdict.problems += [
            f"{finding['check']}: {finding['found']}" + (f" -> {finding['fix']}" if finding["fix"] else "")
            for finding in answer["findings"]
            if finding["status"] == "failure"
        ]
        if run(launcher, host, ["test", "-e", str(marker)], {}, DOCTOR_SECONDS).returncode != 0:
            verdict.problems.append(f"does not see {marker.parent}: --data has to be a folder that all hosts share")
    except ClusterError as error:
        verdict.problems.append(str(error))
    return verdict


def _answer(text: str) -> dict[str, list[dict[str, str]]] | None:
    """The JSON object in what a login shell may have greeted before."""
    begin = text.find("{\n")
    try:
        answer = json.loads(text[begin:]) if begin >= 0 else None
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and "findings" in answer else None
