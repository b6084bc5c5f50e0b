"""What merge tasks do: their executor's agent brings their ranges of all other agents' blocks, and they merge them."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eval.scale.executors import PANES, PLAN, QUERY, Executor
from pyslash import _native
from pyslash.protocol import wire
from pyslash.protocol.codec import body
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Gather, Land
from pyslash.protocol.token import Right, query_token
from pyslash.protocol.wire import Channel, Kind

_SECONDS = 120
_ALIGNMENT = 64
_PREFIXES = 1 << 32

Prefixes = tuple[int, int]

Heads = list[tuple[AgentDescriptor, list[_native.Head]]]
"""The blocks of an epoch, by agent."""

_Wanted = tuple[_native.Head, int, list[tuple[int, int]]]
"""A block, its place in the landing, and the ranges of it that are wanted."""


@dataclass(frozen=True)
class Gathered:
    """What one task was brought: `bytes` from other hosts, in so many calls. `landing` stays until `done` is closed."""

    prefixes: Prefixes
    calls: int
    blocks: int
    bytes: int
    wanted: list[_Wanted]
    landing: _native.Arena
    start: int
    done: ExitStack


@dataclass(frozen=True)
class Merged:
    """What one task gives: groups, and how many rows they count; the CPU seconds that it takes."""

    groups: int
    rows: int
    cpu_seconds: float


class Tasks:
    """The merge tasks of one executor. Each has a connection to the executor's agent, as a task in a JVM has."""

    def __init__(self, executor: Executor, secret: bytes, count: int) -> None:
        """Connects with the first merge."""
        self._agent, self._arena = executor.agent, executor.arena
        self._token = query_token(secret, QUERY, Right.READ)
        self._pool = ThreadPoolExecutor(count)

    def gather(self, heads: Heads, ranges: list[Prefixes]) -> tuple[list[Gathered], float]:
        """All tasks at once, one for each range of prefixes; and the seconds until the last one has its blocks."""
        started = time.monotonic()
        tasks = [self._pool.submit(self._gather, heads, prefixes) for prefixes in ranges]
        return [task.result() for task in tasks], time.monotonic() - started

    def merge(self, heads: Heads, gathered: list[Gathered]) -> list[Merged]:
        """All tasks at once, what was brought and what is at home; landings are given back."""
        return list(self._pool.map(lambda one: self._merge(heads, one), gathered))

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()

    def _gather(self, heads: Heads, prefixes: Prefixes) -> Gathered:
        peers, size = _wanted([one for one in heads if one[0] != self._agent], prefixes)
        asked = [
            [agent.to_json(), [[head.arena_offset, place, list(map(list, ranges))] for head, place, ranges in blocks]]
            for agent, blocks in peers
        ]
        with ExitStack() as stack:
            connection = stack.enter_context(wire.connect_unix(self._agent.socket, _SECONDS))
            channel, _ = wire.greet(connection, QUERY, self._token, time.monotonic() + _SECONDS)
            made = _call(channel, "gather", Gather(size, _SECONDS, _version(heads)))
            stack.callback(_give_back, channel)
            brought = _call(channel, "land", Land("tcp", asked))["brought"]
            wanted = [block for _, blocks in peers for block in blocks]
            handle = os.open(f"/proc/{self._agent.pid}/fd/{made['fd']}", os.O_RDWR | os.O_CLOEXEC)
            stack.callback(os.close, handle)
            landing = _native.Arena.attach(handle, self._agent.incarnation_bytes)
            size = sum(count for transport, count in brought.items() if transport != "shm")  # which is copied here
            return Gathered(prefixes, 1, len(wanted), size, wanted, landing, made["start"], stack.pop_all())

    def _merge(self, heads: Heads, gathered: Gathered) -> Merged:
        with gathered.done:
            started = time.thread_time()
            merger = _native.Merger(_native.Plan(PLAN), [PANES[0]], *gathered.prefixes)
            for head, place, ranges in gathered.wanted:
                for offset, length in ranges:
                    merger.add(head, offset, gathered.landing.view(gathered.start + place + offset, length))
            for head in dict(heads)[self._agent]:
                for offset, length in head.ranges(*PANES, *gathered.prefixes):
                    merger.add(head, offset, self._arena.view(head.arena_offset + offset, length))
            groups = rows = 0
            while (batch := merger.next()) is not None:
                groups += batch.num_rows
                rows += int(np.asarray(pa.record_batch(batch).column(-1)).sum())
            return Merged(groups, rows, time.thread_time() - started)


def _version(heads: Heads) -> str:
    """A name of the state whose changes these blocks are."""
    return f"epoch {max((head.epoch for _, of_agent in heads for head in of_agent), default=0)}"


def cuts(count: int) -> list[Prefixes]:
    """All hash prefixes in so many equal parts."""
    return [(_PREFIXES * index // count, _PREFIXES * (index + 1) // count) for index in range(count)]


def _wanted(heads: Heads, prefixes: Prefixes) -> tuple[list[tuple[AgentDescriptor, list[_Wanted]]], int]:
    """What to read of the blocks of each agent, and the size of the landing."""
    end, peers = 0, []
    for agent, of_agent in heads:
        blocks: list[_Wanted] = []
        for head in of_agent:
            ranges = head.ranges(*PANES, *prefixes)
            if ranges:
                blocks.append((head, end, ranges))
                end += -(-head.length // _ALIGNMENT) * _ALIGNMENT
        if blocks:
            peers.append((agent, blocks))
    return peers, max(1, end)


def _call(channel: Channel, name: str, request: Gather | Land) -> dict[str, Any]:
    until = time.monotonic() + _SECONDS
    channel.send(Kind.CALL, f"{name} \n".encode() + body(request), until)
    kind, answer = channel.receive(until)
    if kind is not Kind.RESULT:
        raise RuntimeError(f"{name}: {answer.decode(errors='replace')}")
    found: dict[str, Any] = json.loads(answer)
    return found


def _give_back(channel: Channel) -> None:
    channel.send(Kind.DONE, b"", time.monotonic() + _SECONDS)
    channel.receive(time.monotonic() + _SECONDS)
