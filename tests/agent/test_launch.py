"""Starting, finding and ending agents."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyslash.agent.listener import GREETING_SECONDS
from pyslash.agent.process import launch
from pyslash.agent.process.launch import AgentRequest, answers, ensure
from pyslash.agent.process.runtime import open_runtime, sweep
from pyslash.errors import AgentStartError
from pyslash.protocol import process
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token
from tests.agent.blocks import PLAN, QUERY, attach, write
from tests.agent.conftest import wait_until_gone
from tests.agent.raw import connected

Request = Callable[..., AgentRequest]
FULL = (
    '{"secret": "%s", "arena_bytes": %s, "jvm_pid": 1, "host": "h", "runtime_dir": null, "deadline_seconds": 1, '
    '"tcp": true}'
)


@pytest.fixture
def few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test starts may open 256, and no more."""
    popen = subprocess.Popen

    def limited(*args: Any, **named: Any) -> subprocess.Popen[bytes]:
        return popen(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)), **named)

    monkeypatch.setattr(subprocess, "Popen", limited)


def test_an_agent_answers_and_a_second_request_finds_it(
    agent: AgentDescriptor, request_agent: Request, secret: bytes
) -> None:
    assert ensure(request_agent()) == agent
    assert answers(agent, secret)
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
    for name in ("cmdline", "environ"):
        assert text not in Path(f"/proc/{agent.pid}/{name}").read_bytes()
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


def stop(pid: int) -> None:
    """Every thread of it; a signal is not there at once."""
    os.kill(pid, signal.SIGSTOP)
    while any(state not in "TZ" for state in thread_states(pid)):
        os.sched_yield()


def test_an_agent_that_is_killed_is_replaced(agent: AgentDescriptor, request_agent: Request, secret: bytes) -> None:
    os.kill(agent.pid, signal.SIGKILL)
    successor = ensure(request_agent())
    assert successor.pid != agent.pid
    assert wait_until_gone(agent.pid)
    assert answers(successor, secret)


def test_an_agent_that_is_stopped_is_waited_for_and_never_replaced(
    agent: AgentDescriptor, request_agent: Request
) -> None:
    head = write(agent, 0, [0])
    stop(agent.pid)
    try:
        with pytest.raises(AgentStartError, match=f"process {agent.pid}, lives but gave no answer within 3 s"):
            ensure(request_agent(deadline_seconds=3))
        assert process.is_alive(agent.pid, agent.start_time)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ensure, request_agent())
            os.kill(agent.pid, signal.SIGCONT)
            assert waiting.result() == agent
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    assert [block[0] for block in attach(agent).blocks()] == [head.arena_offset]


def folder_of(agent: AgentDescriptor) -> Path:
    """The runtime directory."""
    return Path(agent.socket).parent


CLEANED = {
    "alive": ["*.alive"],
    "descriptor": ["*.json"],
    "both": ["*.alive", "*.json"],
    "all but the socket": ["*.alive", "*.json", "*.log", "lock"],
    "all": ["*"],
}


@pytest.mark.parametrize("is_stopped", [False, True], ids=["at once", "much later"])
@pytest.mark.parametrize("patterns", CLEANED.values(), ids=CLEANED.keys())
def test_a_cleaner_of_temporary_files_gets_nobody_replaced(
    agent: AgentDescriptor,
    client: AgentClient,
    secret: bytes,
    request_agent: Request,
    patterns: list[str],
    is_stopped: bool,
) -> None:
    """Whoever looks before the agent has noticed finds it by its process, and afterwards by its files again."""
    head = write(agent, 0, [0])
    client.commit(0, [head.arena_offset], PLAN)
    if is_stopped:
        stop(agent.pid)
    before = {file.name for file in folder_of(agent).iterdir()}
    for pattern in patterns:
        for file in folder_of(agent).glob(pattern):
            file.unlink()
    if patterns == ["*"]:
        folder_of(agent).rmdir()
    if is_stopped:
        with pytest.raises(AgentStartError, match="lives but gave no answer"):
            ensure(request_agent(deadline_seconds=1))
        os.kill(agent.pid, signal.SIGCONT)
    assert ensure(request_agent()) == agent
    assert client.describe().blocks == 1
    while not {*before} <= {file.name for file in folder_of(agent).glob("*")}:
        os.sched_yield()
    with AgentClient(agent, QUERY, query_token(secret, QUERY), via="unix", timeout_seconds=20) as again:
        assert again.describe().blocks == 1
    sweep(folder_of(agent).parent)
    assert folder_of(agent).exists()
    os.kill(agent.pid, signal.SIGKILL)
    assert wait_until_gone(agent.pid)
    successor = ensure(request_agent())  # the beacon ends with its agent
    assert successor.incarnation != agent.incarnation


@pytest.mark.parametrize("held", ["folder", "life"])
def test_the_directory_of_an_agent_in_another_pid_namespace_stays(
    agent: AgentDescriptor, runtime_root: Path, held: str
) -> None:
    """Where containers share a directory, the pid of one's JVM is nobody's, or somebody else's, in the other.

    The folder is held even where a cleaner has taken the file that is.
    """
    seen_from_there = runtime_root / "1234567-1"
    stop(agent.pid)
    try:
        folder_of(agent).rename(seen_from_there)
        if held == "folder":
            for life in seen_from_there.glob("*.alive"):
                life.unlink()
        sweep(runtime_root)
        assert (seen_from_there / Path(agent.socket).name).exists()
        seen_from_there.rename(folder_of(agent))
    finally:
        os.kill(agent.pid, signal.SIGCONT)


@pytest.mark.usefixtures("few_descriptors")
def test_idle_connections_starve_nobody_and_end(
    start: Callable[..., tuple[AgentDescriptor, AgentClient]], secret: bytes
) -> None:
    """At 256 descriptors an agent is not deaf to its own host, however many strangers connect and say nothing."""
    agent, client = start()
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(connected(agent)) for _ in range(400)]
        assert answers(agent, secret)
        assert client.stats()["open_fds"] < 200
        with AgentClient(agent, QUERY, query_token(secret, QUERY), via="tcp") as peer:
            assert peer.describe().epoch == -1  # who has a token is let in
        before = time.monotonic()
        for stranger in strangers:
            stranger.settimeout(2 * GREETING_SECONDS)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        assert time.monotonic() - before < 2 * GREETING_SECONDS
    assert client.stats()["connections"] == 1


def test_directories_of_dead_jvms_are_swept(agent: AgentDescriptor, runtime_root: Path) -> None:
    dead = runtime_root / "1234567-1"
    dead.mkdir()
    (dead / "old.log").touch()
    foreign = runtime_root / "not-ours"
    foreign.mkdir()
    sweep(runtime_root)
    assert not dead.exists()
    assert foreign.exists()
    assert Path(agent.socket).exists()


def test_a_directory_whose_agent_is_about_to_start_stays(runtime_root: Path) -> None:
    runtime = open_runtime(str(runtime_root), 1234567, 1, "name")
    with runtime.lock(0):
        sweep(runtime_root)
        assert runtime.path.exists()
    sweep(runtime_root)
    assert not runtime.path.exists()
    with runtime.lock(0):  # who has opened it before makes it again
        assert runtime.path.exists()


def test_what_is_not_a_directory_of_ours_stays_and_does_not_end_the_sweep(runtime_root: Path) -> None:
    gone = open_runtime(str(runtime_root), 1234567, 1, "name").path
    (runtime_root / "1234-1").write_bytes(b"a file")
    (runtime_root / "elsewhere").mkdir()
    (runtime_root / "1234-2").symlink_to(runtime_root / "elsewhere")
    for name in ("²-1", "1234-٣", "README-1"):
        (runtime_root / name).mkdir()
    kept = set(os.listdir(runtime_root)) - {gone.name}
    sweep(runtime_root)
    assert set(os.listdir(runtime_root)) == kept
    assert os.listdir(runtime_root / "elsewhere") == []


def test_nobody_can_make_the_default_directory_first(
    request_agent: Request, jvm: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user knows our uid, not our secret: a directory of a name that he can guess is in nobody's way."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for guessed in (f"pyslash-{os.geteuid()}", f"pyslash-{os.geteuid()}-"):
        (tmp_path / guessed).mkdir(mode=0o777)
    agent = ensure(request_agent(runtime_dir=None))
    root = Path(agent.socket).parent.parent
    assert root.parent == tmp_path
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    jvm.kill()
    assert wait_until_gone(agent.pid)
    assert not root.exists()


def test_a_long_path_is_no_obstacle(
    request_agent: Request, jvm: subprocess.Popen[bytes], secret: bytes, tmp_path: Path
) -> None:
    """YARN's container directories alone are longer than a Unix socket's address."""
    root = tmp_path / ("x" * 150) / "container"
    agent = ensure(request_agent(runtime_dir=str(root)))
    assert len(agent.socket) > 200
    assert answers(agent, secret)
    with AgentClient(agent, QUERY, query_token(secret, QUERY)) as client:
        assert client.describe().epoch == -1
    jvm.kill()
    assert wait_until_gone(agent.pid)


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


def test_a_failed_start_tells_its_cause_and_keeps_its_log(
    request_agent: Request, jvm: subprocess.Popen[bytes], runtime_root: Path
) -> None:
    with pytest.raises(AgentStartError, match="ended while it started") as failed:
        ensure(request_agent(host="no-such-host.invalid"))
    found = re.fullmatch(r".* started: (.+)\. Its log: (\S+)", str(failed.value))
    assert found is not None, "it is one line, as the driver reads it"
    assert re.fullmatch(r"socket\.gaierror: .*(known|resolution)", found[1])
    log = Path(found[2]).read_text()
    assert found[1] in log
    assert "Traceback" in log
    jvm.kill()
    jvm.wait()
    sweep(runtime_root)
    assert Path(found[2]).read_text() == log


def test_a_python_that_lacks_something_is_told_apart(
    request_agent: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "venv")
    monkeypatch.setattr(launch, "_environment", lambda: {**os.environ, "PYTHONPATH": ""})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    with pytest.raises(AgentStartError, match=r"No module named .*/venv/bin/python lacks .*let PYSPARK_PYTHON"):
        ensure(request_agent())


def test_the_logs_of_the_last_failed_starts_are_kept(runtime_root: Path) -> None:
    for number in range(25):
        runtime = open_runtime(str(runtime_root), 1000 + number, 1, "name")
        runtime.log.write_text(f"attempt {number}")
        kept = runtime.keep_log()
        os.utime(kept, (number, number))
    assert sorted(log.read_text() for log in kept.parent.iterdir()) == sorted(f"attempt {n}" for n in range(5, 25))


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("", "it has said nothing"),
        ("2026 INFO begins\n2026 ERROR the last line\n\n", "2026 ERROR the last line"),
        (
            'Traceback (most recent call last):\n  File "x", line 1\n    f()\n    ^^^\nValueError: two\nlines\n',
            "ValueError: two lines",
        ),
        (
            "Traceback (most recent call last):\n  f\nKeyError: 1\n\nDuring handling of it:\n\n"
            "Traceback (most recent call last):\n  g\nImportError: cannot import name '_native'\n",
            "ImportError: cannot import name '_native'",
        ),
    ],
)
def test_the_cause_is_the_end_of_the_last_traceback(log: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert launch.cause_of(tmp_path / "log") == cause


def test_an_arena_that_the_host_cannot_hold_is_refused(request_agent: Request) -> None:
    with pytest.raises(AgentStartError, match=r"arena\.size is 921600\.0 GiB, .* has .* GiB: set a smaller one"):
        ensure(request_agent(arena_bytes=900 << 40))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        FULL % ("zz", "1"),
        FULL % ("00", "1"),
        FULL % ("00", "true"),
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


def test_a_folder_that_cannot_be_made_is_a_typed_error(request_agent: Request, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AgentStartError, match="file"):
        ensure(request_agent(runtime_dir=str(tmp_path / "file" / "r")))
