"""Starting, finding and ending agents."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyslash.agent import process
from pyslash.agent.client import AgentClient
from pyslash.agent.descriptor import AgentDescriptor
from pyslash.agent.launch import AgentRequest, answers, ensure
from pyslash.agent.runtime import open_runtime, sweep
from pyslash.errors import AgentStartError
from tests.agent.conftest import wait_until_gone

Request = Callable[..., AgentRequest]


def test_an_agent_answers_and_a_second_request_finds_it(agent: AgentDescriptor, request_agent: Request) -> None:
    assert ensure(request_agent()) == agent
    assert answers(agent.socket)
    assert process.is_alive(agent.pid, agent.start_time)


def test_requests_at_the_same_time_start_one_agent(request_agent: Request, jvm: subprocess.Popen[bytes]) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(ensure, [request_agent() for _ in range(4)]))
    assert len(found) == 1
    jvm.kill()
    assert wait_until_gone(found.pop().pid)


def test_applications_with_other_secrets_get_agents_of_their_own(
    agent: AgentDescriptor, request_agent: Request, jvm: subprocess.Popen[bytes]
) -> None:
    other = ensure(request_agent(secret=bytes(32)))
    assert other.incarnation != agent.incarnation
    jvm.kill()
    assert wait_until_gone(other.pid)


def test_it_has_a_session_of_its_own_and_private_files(agent: AgentDescriptor) -> None:
    assert os.getsid(agent.pid) != os.getsid(0)
    runtime = Path(agent.socket).parent
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
    assert stat.S_IMODE(runtime.parent.stat().st_mode) == 0o700


def test_the_secret_is_nowhere_to_be_read(agent: AgentDescriptor, client: AgentClient, secret: bytes) -> None:
    client.stats()
    text = secret.hex().encode()
    for file in ("cmdline", "environ"):
        assert text not in Path(f"/proc/{agent.pid}/{file}").read_bytes()
    for file in Path(agent.socket).parent.iterdir():
        if file.is_file():
            assert text not in file.read_bytes()
    assert secret.hex() not in repr(AgentRequest(secret, 1, 1, "h"))


def test_kill_of_the_jvm_ends_the_agent_and_leaves_nothing(
    request_agent: Request, jvm: subprocess.Popen[bytes], runtime_root: Path
) -> None:
    agent = ensure(request_agent())
    jvm.kill()
    assert wait_until_gone(agent.pid)
    assert list(runtime_root.iterdir()) == []


def test_sigterm_ends_it_and_the_next_request_starts_another(agent: AgentDescriptor, request_agent: Request) -> None:
    os.kill(agent.pid, signal.SIGTERM)
    assert wait_until_gone(agent.pid)
    assert not Path(agent.socket).exists()
    assert "ends: it was asked to" in Path(agent.log).read_text()
    successor = ensure(request_agent())
    assert successor.incarnation != agent.incarnation


def thread_states(pid: int) -> list[str]:
    """One letter for each thread of a process; none once it is gone."""
    try:
        return [file.read_text().rpartition(") ")[2][0] for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_agent_that_is_killed_or_stuck_is_replaced(
    agent: AgentDescriptor, request_agent: Request, number: signal.Signals
) -> None:
    os.kill(agent.pid, number)
    while any(state not in "TZ" for state in thread_states(agent.pid)):  # a signal is not there at once
        os.sched_yield()
    successor = ensure(request_agent())
    assert successor.pid != agent.pid
    assert wait_until_gone(agent.pid)
    assert answers(successor.socket)


def test_directories_of_dead_jvms_are_swept(agent: AgentDescriptor, runtime_root: Path) -> None:
    dead = runtime_root / "1234567-1"
    dead.mkdir()
    (dead / "old.log").touch()
    foreign = runtime_root / "not-ours"
    foreign.mkdir()
    assert sweep(runtime_root) == 1
    assert foreign.exists()
    assert Path(agent.socket).exists()


def test_no_agent_for_a_jvm_that_is_gone(request_agent: Request, jvm: subprocess.Popen[bytes]) -> None:
    jvm.kill()
    jvm.wait()
    with pytest.raises(AgentStartError, match="no such process"):
        ensure(request_agent())


def test_a_directory_that_others_may_enter_is_refused(request_agent: Request, runtime_root: Path) -> None:
    runtime_root.mkdir(mode=0o755)
    with pytest.raises(AgentStartError, match="mode 0700"):
        ensure(request_agent())


def test_a_link_in_the_directory_s_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "root").symlink_to(tmp_path / "target")
    with pytest.raises(AgentStartError, match="must be a directory"):
        open_runtime(str(tmp_path / "root"), 1, 1, "name")


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AgentStartError, match="too long for a Unix socket"):
        open_runtime(str(tmp_path / ("x" * 100)), 1, 1, "name")


def test_a_failed_start_quotes_the_log(request_agent: Request) -> None:
    with pytest.raises(AgentStartError, match="ended while it started"):
        ensure(request_agent(host="no-such-host.invalid"))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"secret": "zz", "arena_bytes": 1, "jvm_pid": 1, "host": "h", "runtime_dir": null, "deadline_seconds": 1}',
        '{"secret": "00", "arena_bytes": 1, "jvm_pid": 1, "host": "h", "runtime_dir": null, "deadline_seconds": 1}',
        '{"secret": "00", "arena_bytes": true, "jvm_pid": 1, "host": "h", "runtime_dir": null, "deadline_seconds": 1}',
    ],
)
def test_the_command_answers_a_bad_request_with_one_line(body: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pyslash.agent", "ensure"], input=body, text=True, capture_output=True)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "AgentStartError"
    assert done.stdout.count("\n") == 1


def test_the_command_prints_the_descriptor(agent: AgentDescriptor, request_agent: Request) -> None:
    request = request_agent()
    body = {**request.__dict__, "secret": request.secret.hex()}
    done = subprocess.run(
        [sys.executable, "-m", "pyslash.agent", "ensure"], input=json.dumps(body), text=True, capture_output=True
    )
    assert AgentDescriptor.from_json(done.stdout) == agent
