"""Agents of made-up executors, each in its own place of the network, and the blocks that update tasks would leave."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from eval.scale.network import Host
from pyslash import _native
from pyslash.plan.spec import AggregateSpec, ColumnSpec, PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Fold
from pyslash.protocol.token import query_token
from pyslash.state.files.block_head import head_crc

QUERY = bytes(range(16))
PLAN = PlanSpec(
    window=TimeWindow(10_000_000, 10_000_000, 0),
    columns=(ColumnSpec("int64", True),) * 2,
    keys=(1,),
    aggregates=(AggregateSpec("sum", (2,), ansi=True), AggregateSpec("count", ansi=True)),
).text
PANES = (0, 10_000_000)
"""First and end, in microseconds: each epoch has the one window."""

_GROUP_BYTES = 32
_ROOM_BYTES = 32 << 20
_START_SECONDS = 120
_FOLD_SECONDS = 120


@dataclass(frozen=True)
class Executor:
    """An agent, its control plane, and its arena as update tasks of its host see it."""

    agent: AgentDescriptor
    client: AgentClient
    arena: _native.Arena

    def cpu_seconds(self) -> float:
        """Of the agent since it started, in all of its threads."""
        return time.clock_gettime((~self.agent.pid << 3) | 2)

    def write(self, epoch: int, batches: Iterable[pa.RecordBatch]) -> list[tuple[bytes, float]]:
        """The head of the block that each update task leaves of its rows, and the CPU seconds that it takes."""
        written = []
        for attempt, batch in enumerate(batches):
            started = time.thread_time()
            accumulator = _native.Accumulator(_native.Plan(PLAN), -(1 << 62))
            accumulator.add(batch)
            head = accumulator.seal(self.arena, QUERY, epoch, attempt)
            written.append((head, time.thread_time() - started))
        return written

    def fold(self, epoch: int, heads: list[bytes]) -> tuple[list[bytes], float]:
        """Heads of what the agent makes of these blocks; and the seconds that it takes."""
        started = time.monotonic()
        offsets = [_native.Head(head).arena_offset for head in heads]
        request = Fold(epoch, offsets, PLAN, 0, [head_crc(head) for head in heads])
        folded = self.client.fold(request, _FOLD_SECONDS)
        return folded or heads, time.monotonic() - started

    def commit(self, epoch: int, heads: list[bytes]) -> list[_native.Head]:
        """Make these blocks part of the state."""
        parsed = [_native.Head(head) for head in heads]
        self.client.commit(epoch, [head.arena_offset for head in parsed], PLAN)
        return parsed

    def free(self) -> None:
        """All windows that are closed."""
        self.client.release(PANES[1])


@contextmanager
def executors(hosts: list[Host], secret: bytes, folder: Path, blocks: int, keys: int) -> Iterator[list[Executor]]:
    """An executor on each host, with room for a few epochs, until the end of the block."""
    arena_bytes = _ROOM_BYTES + 4 * blocks * keys * _GROUP_BYTES
    with ExitStack() as stack:
        started = [stack.enter_context(_started(host, secret, folder, arena_bytes)) for host in hosts]
        token = query_token(secret, QUERY)
        yield [
            Executor(agent, stack.enter_context(AgentClient(agent, QUERY, token, timeout_seconds=60)), _attached(agent))
            for agent in started
        ]


@contextmanager
def _started(host: Host, secret: bytes, folder: Path, arena_bytes: int) -> Iterator[AgentDescriptor]:
    # In place of the JVM: it ends with this process at the latest, and the agent with it.
    jvm = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        request = {
            "secret": secret.hex(),
            "arena_bytes": arena_bytes,
            "jvm_pid": jvm.pid,
            "host": host.address,
            "runtime_dir": str(folder),
            "deadline_seconds": _START_SECONDS,
            "tcp": True,
        }
        command = [*host.prefix, sys.executable, "-m", "pyslash.agent", "ensure"]
        done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"an agent on {host.address} did not start: {done.stdout or done.stderr}")
        agent = AgentDescriptor.from_json(done.stdout)
        ended = os.pidfd_open(agent.pid)
    except BaseException:
        jvm.kill()
        jvm.wait()
        raise
    try:
        yield agent
    finally:
        jvm.kill()
        jvm.wait()
        _wait(ended)


def new_secret() -> bytes:
    """Of one application."""
    return secrets.token_bytes(32)


def _wait(pidfd: int) -> None:
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(10_000)
    finally:
        os.close(pidfd)


def _attached(agent: AgentDescriptor) -> _native.Arena:
    handle = os.open(agent.arena_path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return _native.Arena.attach(handle, agent.incarnation_bytes)
    finally:
        os.close(handle)
