"""Finds the executor's agent, or starts it. Standard library only: the first task of an executor waits for this."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

from pyslash.agent.process.runtime import RuntimeDirectory, open_runtime
from pyslash.errors import AgentError, AgentStartError
from pyslash.memory import Room
from pyslash.protocol import process, wire
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import QUERY_BYTES, SECRET_BYTES, Right, query_token, secret_name

_ANSWER_SECONDS = 2.0
_PAUSE_SECONDS = 0.05
MAX_DEADLINE_SECONDS = 600
_TRACEBACK = "Traceback (most recent call last):"
_OTHER_PYTHON = (
    "{} lacks what pyslash needs: let PYSPARK_PYTHON, or spark.pyspark.python for spark-submit, name the Python of the "
    "environment with pyslash"
)


@dataclass(frozen=True)
class AgentRequest:
    """An executor's request for its agent. `jvm_pid`: the agent lives as long as that process.

    `tcp`: other hosts are to reach it, at `host`.
    """

    secret: bytes
    arena_bytes: int
    jvm_pid: int
    host: str
    runtime_dir: str | None = None
    deadline_seconds: float = 30
    tcp: bool = True

    def __post_init__(self) -> None:
        """Bounds, checked before anything is started."""
        if len(self.secret) != SECRET_BYTES:
            raise AgentStartError(f"the secret must have {SECRET_BYTES} bytes, not {len(self.secret)}")
        if not 0 < self.deadline_seconds <= MAX_DEADLINE_SECONDS:
            raise AgentStartError(f"deadline_seconds must be within (0, {MAX_DEADLINE_SECONDS}]")
        if self.arena_bytes <= 0 or self.jvm_pid <= 0 or not self.host:
            raise AgentStartError("arena_bytes and jvm_pid must be positive, and host must be given")

    def __repr__(self) -> str:
        """Without the secret."""
        return f"AgentRequest(arena_bytes={self.arena_bytes}, jvm_pid={self.jvm_pid}, host={self.host!r})"

    @classmethod
    def from_json(cls, text: str) -> AgentRequest:
        """The request in a JSON object of exactly these fields; the secret is 64 hex digits.

        Raises:
            AgentStartError: malformed; the message never quotes the input, which holds the secret.
        """
        kinds: dict[str, tuple[type, ...]] = {
            "secret": (str,),
            "arena_bytes": (int,),
            "jvm_pid": (int,),
            "host": (str,),
            "runtime_dir": (str, type(None)),
            "deadline_seconds": (int, float),
            "tcp": (bool,),
        }
        try:
            record: dict[str, Any] = json.loads(text)
            if set(record) != set(kinds):
                raise AgentStartError(f"a request has the fields {sorted(kinds)}, not {sorted(record)}")
            for name, allowed in kinds.items():
                if type(record[name]) not in allowed:
                    raise AgentStartError(f"field {name} of a request has the wrong type")
            record["secret"] = bytes.fromhex(record["secret"])
        except (ValueError, TypeError):
            raise AgentStartError("a request is one JSON object, with its secret in hex") from None
        return cls(**record)


def ensure(request: AgentRequest) -> AgentDescriptor:
    """The descriptor of the executor's agent. Starts one if none is alive.

    An agent that is alive and does not answer is waited for until the deadline, and never replaced: its successor
    would be empty, and its state lost.

    Raises:
        AgentStartError: the JVM is gone, the runtime directory is not safe, the agent that lives did not answer, or a
            new one did not start, in time; the message has the cause out of its log, and where the log is kept.
    """
    deadline = time.monotonic() + request.deadline_seconds
    jvm_start = process.start_time(request.jvm_pid)
    if jvm_start is None:
        raise AgentStartError(f"no agent for JVM {request.jvm_pid}: there is no such process")
    try:
        runtime = open_runtime(request.runtime_dir, request.jvm_pid, jvm_start, secret_name(request.secret))
        with runtime.lock(deadline):
            running = _running_agent(request, runtime, deadline)
            return running if running is not None else _start(request, jvm_start, runtime, deadline)
    except OSError as error:
        raise AgentStartError(f"no agent for JVM {request.jvm_pid}: {error}") from error


def ensure_from_worker(
    secret: bytes,
    arena_bytes: int,
    host: str,
    runtime_dir: str | None = None,
    deadline_seconds: float = 30,
    tcp: bool = True,
) -> AgentDescriptor:
    """`ensure` for a Python worker: its JVM is the nearest ancestor that is one.

    Raises:
        AgentStartError: as `ensure`, or no ancestor is a JVM.
    """
    jvm = process.nearest_jvm()
    if jvm is None:
        raise AgentStartError(f"process {os.getpid()} has no JVM above it, so there is no executor that needs an agent")
    return ensure(AgentRequest(secret, arena_bytes, jvm, host, runtime_dir, deadline_seconds, tcp))


def answers(agent: AgentDescriptor, secret: bytes, timeout_seconds: float = _ANSWER_SECONDS) -> bool:
    """Whether this very agent answers on its Unix socket."""
    query = bytes(QUERY_BYTES)
    try:
        with wire.connect_unix(agent.socket, timeout_seconds) as connection:
            token = query_token(secret, query, Right.READ)
            _, found = wire.greet(connection, query, token, time.monotonic() + timeout_seconds)
    except (OSError, AgentError):
        return False
    return found == agent.incarnation_bytes


def _running_agent(request: AgentRequest, runtime: RuntimeDirectory, deadline: float) -> AgentDescriptor | None:
    """The living agent, once it answers; None if there is none."""
    while True:
        agent = _descriptor(runtime)
        lives = runtime.is_alive or (agent is not None and process.is_alive(agent.pid, agent.start_time))
        if not lives and (beacon := runtime.seen_beacon()) is not None:  # its files are gone, and it is not
            agent, lives = _parsed(beacon), True
        if not lives:
            runtime.remove_agent_files()
            return None
        left = deadline - time.monotonic()
        if agent is not None and left > 0 and answers(agent, request.secret, min(left, _ANSWER_SECONDS)):
            return agent
        if left <= _PAUSE_SECONDS:
            who = f"process {agent.pid}" if agent is not None else f"the holder of {runtime.life}"
            raise AgentStartError(
                f"the agent of JVM {request.jvm_pid}, {who}, lives but gave no answer within "
                f"{request.deadline_seconds:g} s, and is not replaced: it holds state. If it is stopped, let it "
                "continue (kill -CONT); only if its state may go, end it (kill -9), and the next attempt starts another"
            )
        time.sleep(_PAUSE_SECONDS)


def _descriptor(runtime: RuntimeDirectory) -> AgentDescriptor | None:
    try:
        return _parsed(runtime.descriptor.read_text(errors="replace"))
    except FileNotFoundError:
        return None


def _parsed(text: str) -> AgentDescriptor | None:
    try:
        return AgentDescriptor.from_json(text)
    except ValueError:
        return None


def _start(request: AgentRequest, jvm_start: int, runtime: RuntimeDirectory, deadline: float) -> AgentDescriptor:
    if (refusal := Room.here().refusal(request.arena_bytes)) is not None:
        raise AgentStartError(refusal)
    ready, ready_of_agent = os.pipe()
    try:
        with open(runtime.log, "ab", buffering=0, opener=_private) as log:
            agent = subprocess.Popen(
                [sys.executable, "-m", "pyslash.agent", "serve", "--ready-fd", str(ready_of_agent)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(ready_of_agent,),
                start_new_session=True,
                env=_environment(),
                cwd="/",
            )
    except BaseException:
        os.close(ready)
        raise
    finally:
        os.close(ready_of_agent)
    order = {
        "secret": request.secret.hex(),
        "arena_bytes": request.arena_bytes,
        "jvm_pid": request.jvm_pid,
        "jvm_start": jvm_start,
        "host": request.host,
        "tcp": request.tcp,
        "directory": str(runtime.path),
        "name": runtime.name,
    }
    try:
        # A process that died at once breaks this pipe; its log, quoted below, says of what.
        with contextlib.suppress(BrokenPipeError):
            agent.communicate(json.dumps(order).encode(), timeout=max(0.1, deadline - time.monotonic()))
        if _closes_in_time(ready, deadline):
            if runtime.descriptor.exists():
                return AgentDescriptor.from_json(runtime.descriptor.read_bytes())
            reason = "ended while it started"
        else:
            reason = f"gave no answer within {request.deadline_seconds:g} s"
    except subprocess.TimeoutExpired:
        reason = f"took no order within {request.deadline_seconds:g} s"
    except BaseException:
        _kill_session(agent)
        raise
    finally:
        os.close(ready)
    _kill_session(agent)
    kept = runtime.keep_log()
    cause = cause_of(kept)
    lacks = re.search(r"\b(ModuleNotFound|Import)Error\b", cause)
    advice = f". {_OTHER_PYTHON.format(sys.executable)}" if lacks else ""
    raise AgentStartError(f"the agent of JVM {request.jvm_pid} {reason}: {cause}{advice}. Its log: {kept}")


def _kill_session(agent: subprocess.Popen[bytes]) -> None:
    """Kills the session of the first process, which the agent is still part of (see `serve`)."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()


def _closes_in_time(pipe: int, deadline: float) -> bool:
    """Waits until the agent closes its end: it does so when its descriptor is in place, or when it dies."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(max(0, int((deadline - time.monotonic()) * 1000))))


def _environment() -> dict[str, str]:
    """The environment of this process; the agent imports pyslash from where this process did."""
    here = str(Path(__file__).resolve().parents[3])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([here, *(entry for entry in known if entry and entry != here)])
    return {**os.environ, "PYTHONPATH": path}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def cause_of(log: Path, last_bytes: int = 20_000) -> str:
    """Of what a process died, on one line: the exception of its last traceback, or else the last that it said."""
    try:
        lines = log.read_bytes()[-last_bytes:].decode(errors="replace").splitlines()
    except OSError as error:
        return f"its log cannot be read ({error.strerror})"
    last = max((at for at, line in enumerate(lines) if line.startswith(_TRACEBACK)), default=None)
    if last is None:
        return next((line.strip() for line in reversed(lines) if line.strip()), "it has said nothing")
    # Frames are indented; an exception's own message may go over several lines.
    message = dropwhile(lambda line: line.startswith(" "), lines[last + 1 :])
    return " ".join(line.strip() for line in message if line.strip()) or "it has not said why"
