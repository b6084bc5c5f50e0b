"""What merge tasks ask of their executor's agent: their ranges of hash prefixes out of all other agents' blocks."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from eval.scale.executors import PANES, QUERY, Executor
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

Heads = list[tuple[AgentDescriptor, list[_native.Head]]]
"""The blocks of an epoch, by agent."""


@dataclass(frozen=True)
class Gathered:
    """What one task was brought."""

    calls: int
    blocks: int
    bytes: int


class Tasks:
    """The merge tasks of one executor. Each has a connection to the executor's agent, as a task in a JVM has."""

    def __init__(self, executor: Executor, secret: bytes, count: int) -> None:
        """Connects with the first merge."""
        self._agent = executor.agent
        self._token = query_token(secret, QUERY, Right.READ)
        self._pool = ThreadPoolExecutor(count)
        self._count = count

    def merge(self, heads: Heads, ranges: list[tuple[int, int]], check: bool = False) -> tuple[list[Gathered], float]:
        """All tasks at once, one for each range of prefixes; and the seconds until the last one has its blocks."""
        started = time.monotonic()
        tasks = [self._pool.submit(self._gather, heads, prefixes, check) for prefixes in ranges]
        return [task.result() for task in tasks], time.monotonic() - started

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()

    def _gather(self, heads: Heads, prefixes: tuple[int, int], check: bool) -> Gathered:
        peers, size = _wanted([one for one in heads if one[0] != self._agent], prefixes)
        with wire.connect_unix(self._agent.socket, _SECONDS) as connection:
            channel, _ = wire.greet(connection, QUERY, self._token, time.monotonic() + _SECONDS)
            made = _call(channel, "gather", Gather(size, _SECONDS))
            answer = _call(channel, "land", Land("tcp", [[agent, blocks] for agent, blocks in peers]))
            if check:
                self._check(heads, peers, made)
            channel.send(Kind.DONE, b"", time.monotonic() + _SECONDS)
            channel.receive(time.monotonic() + _SECONDS)
        return Gathered(1, sum(len(blocks) for _, blocks in peers), sum(answer["brought"].values()))

    def _check(self, heads: Heads, peers: list[tuple[str, list[list[Any]]]], made: dict[str, Any]) -> None:
        """That the landing has the peers' bytes."""
        handle = os.open(f"/proc/{self._agent.pid}/fd/{made['fd']}", os.O_RDWR | os.O_CLOEXEC)
        try:
            landing = _native.Arena.attach(handle, self._agent.incarnation_bytes)
        finally:
            os.close(handle)
        for text, blocks in peers:
            peer = AgentDescriptor.from_json(text)
            handle = os.open(peer.arena_path, os.O_RDWR | os.O_CLOEXEC)
            try:
                arena = _native.Arena.attach(handle, peer.incarnation_bytes)
            finally:
                os.close(handle)
            for at, place, ranges in blocks:
                for offset, length in ranges:
                    landed = memoryview(landing.view(made["start"] + place + offset, length))
                    if landed != memoryview(arena.view(at + offset, length)):
                        raise AssertionError(
                            f"{peer}: [{offset}, {offset + length}) of block {at} was not brought as it is"
                        )


def cuts(count: int) -> list[tuple[int, int]]:
    """All hash prefixes in so many equal parts."""
    return [(_PREFIXES * index // count, _PREFIXES * (index + 1) // count) for index in range(count)]


def _wanted(heads: Heads, prefixes: tuple[int, int]) -> tuple[list[tuple[str, list[list[Any]]]], int]:
    """[offset, place, ranges] of the blocks of each agent, and the size of the landing."""
    end, peers = 0, []
    for agent, of_agent in heads:
        blocks: list[list[Any]] = []
        for head in of_agent:
            ranges = [list(one) for one in head.ranges(*PANES, *prefixes)]
            if ranges:
                blocks.append([head.arena_offset, end, ranges])
                end += -(-head.length // _ALIGNMENT) * _ALIGNMENT
        if blocks:
            peers.append((agent.to_json(), blocks))
    return peers, max(1, end)


def _call(channel: Channel, name: str, request: Gather | Land) -> dict[str, Any]:
    until = time.monotonic() + _SECONDS
    channel.send(Kind.CALL, f"{name} \n".encode() + body(request), until)
    kind, answer = channel.receive(until)
    if kind is not Kind.RESULT:
        raise RuntimeError(f"{name}: {answer.decode(errors='replace')}")
    found: dict[str, Any] = json.loads(answer)
    return found
