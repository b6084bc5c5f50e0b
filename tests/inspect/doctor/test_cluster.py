"""What executors answered, judged; and the answers of Pythons that are not as they should be."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.inspect.doctor import executors
from pyslash.inspect.doctor.cluster import Driver, judge, table
from pyslash.inspect.doctor.executors import _PREFIX, _SHELL, Answer, Executor
from pyslash.inspect.doctor.finding import Finding, Status
from pyslash.inspect.doctor.software import CRC_CHECK

GIB = 1 << 30
DRIVER = Driver("3.11.7", "0.1.0", 4 * GIB)
FACTS: dict[str, Any] = {
    "host": "a",
    "python": "3.11.9",
    "executable": "/env/bin/python",
    "pyslash": "0.1.0",
    "crc": CRC_CHECK,
    "memory_bytes": 64 * GIB,
    "locked_bytes": None,
    "rdma_ports": ["mlx5_0/1"],
}


def answer(number: int = 0, error: str = "", skew: float = 0.0, **facts: Any) -> Answer:
    """Of an executor that is well, but for these facts."""
    return Answer(Executor(str(number), f"host{number}"), {**FACTS, **facts}, error, skew)


def found(answers: list[Answer], check: str, rdma_required: bool = False) -> list[Finding]:
    return [finding for finding in judge(DRIVER, answers, rdma_required) if finding.check == check]


def test_nothing_is_wrong_with_executors_like_the_driver() -> None:
    assert {finding.status for finding in judge(DRIVER, [answer(0), answer(1, host="b")], True)} == {Status.OK}


@pytest.mark.parametrize(
    ("wrong", "check", "said"),
    [
        (answer(1, python="3.12.1"), "executor python", "is Python 3.12.1, the driver's is 3.11.7"),
        (answer(1, pyslash="0.0.9"), "pyslash", "it is 0.0.9 there, 0.1.0 in the driver"),
        (answer(1, "ImportError: x"), "pyslash", "/env/bin/python: ImportError: x"),
        (answer(1, crc=1), "pyslash", "CRC32C"),
        (Answer(Executor("1", "host1"), error="sh: 1: /nowhere: not found"), "executor python", "/nowhere: not found"),
        (answer(1, locked_bytes=8 << 20), "locked memory", "at most 8388608 bytes"),
        (answer(1, memory_bytes=7 * GIB), "arenas", "2 arenas take 8.0 GiB of the 7.0 GiB"),
    ],
)
def test_what_is_wrong_with_one_executor_is_a_failure_of_its_own(wrong: Answer, check: str, said: str) -> None:
    failures = [finding for finding in found([answer(0), wrong], check) if finding.status is Status.FAILURE]
    assert len(failures) == 1
    assert said in failures[0].found
    assert failures[0].fix


def test_a_host_that_is_nearly_full_of_arenas_is_a_warning() -> None:
    assert [each.status for each in found([answer(memory_bytes=6 * GIB)], "arenas")] == [Status.WARNING]


def test_ports_that_some_executors_lack_are_a_warning_and_a_failure_where_rdma_is_required() -> None:
    some = [answer(0), answer(1, rdma_ports=[])]
    assert [each.status for each in found(some, "rdma")] == [Status.WARNING]
    assert "host1" in found(some, "rdma")[0].fix
    assert [each.status for each in found(some, "rdma", True)] == [Status.FAILURE]
    assert [each.status for each in found([answer(rdma_ports=[])], "rdma")] == [Status.ABSENT]


@pytest.mark.parametrize(("skew", "said"), [(2.0, "2.0 s ahead of"), (-3.0, "3.0 s behind")])
def test_a_clock_that_is_off_is_a_warning(skew: float, said: str) -> None:
    warning, rest = found([answer(0, skew=skew), answer(1, skew=0.1)], "clock")
    assert warning.status is Status.WARNING
    assert f"executor 0 on host0 is at least {said}" in warning.found
    assert rest.found == "1 of 2 executors agree with the driver"


def test_the_table_has_a_line_for_each_executor_also_for_one_that_said_nothing() -> None:
    names, well, silent = table([answer(), Answer(Executor("1", "host1"), error="it ran no task")])
    assert names.split() == ["executor", "host", "python", "pyslash", "memory", "locked", "rdma", "clock"]
    assert well.split() == ["0", "host0", "3.11.9", "0.1.0", "64.0g", "unlimited", "mlx5_0/1", "ok"]
    assert silent.split() == ["1", "host1", "none", "none", "?", "?", "none", "ok"]


def probed(python: str) -> str:
    """What an executor's JVM would read from this Python."""
    program = files("pyslash.inspect.doctor").joinpath("probe.py").read_text()
    return subprocess.run(["sh", "-c", _SHELL, python, program], capture_output=True, text=True, check=True).stdout


def test_the_probe_says_what_this_python_has() -> None:
    facts = json.loads(probed(sys.executable).removeprefix(_PREFIX))
    assert facts["crc"] == CRC_CHECK
    assert facts["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    assert facts["executor"] is None


def test_a_python_that_is_not_there_is_an_answer_and_no_failed_task(tmp_path: Path) -> None:
    said = probed(str(tmp_path / "python"))
    assert "not found" in said
    assert "it ended with status 127" in said


def test_an_executor_that_ran_no_task_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class FromJavaError(Exception):
        cause = SimpleNamespace(getCause=lambda: None, toString=lambda: "SparkException: executor 1 is lost\n\tat ...")
        java_exception = SimpleNamespace(getCause=lambda: FromJavaError.cause)

        def __str__(self) -> str:
            return "An error occurred while calling o52.get.\n: java.util.concurrent.ExecutionException"

    def fail(*_: object) -> list[str]:
        raise FromJavaError

    monkeypatch.setattr(executors, "_piped", fail)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec="python3"))
    found = executors.ask(session, Executor("1", "h"))
    assert found.error == "it ran no task: SparkException: executor 1 is lost"
