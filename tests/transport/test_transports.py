"""Reading a peer's blocks by shared memory and by TCP, and choosing between them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pyslash import _native
from pyslash.agent.process.launch import AgentRequest, ensure
from pyslash.errors import (
    AgentTimeoutError,
    SlashError,
    StaleIncarnationError,
    TransportUnavailableError,
    UnauthenticatedError,
)
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token
from pyslash.transport import Transports, choose, choose_transport, close_transports, shm
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, attach, write
from tests.agent.conftest import wait_until_gone


@pytest.fixture
def head(agent: AgentDescriptor, client: AgentClient) -> _native.Head:
    """A committed block of several MiB: a read of it takes several messages."""
    written = write(agent, 0, [0, 10], keys=range(200_000))
    client.commit(0, [written.arena_offset], PLAN)
    assert written.length > 8 << 20
    return written


@pytest.mark.parametrize("mode", ["shm", "tcp"])
def test_ranges_come_as_they_are_in_the_arena(
    agent: AgentDescriptor, head: _native.Head, transports: Transports, mode: str
) -> None:
    transport = transports.choose(agent, mode).transport
    ranges = [(0, 192), (64, head.length - 64), (head.length - 64, 64)]
    buffers = transport.read(agent, head.arena_offset, ranges)
    whole = bytes(attach(agent).view(head.arena_offset, head.length))
    assert [bytes(buffer) for buffer in buffers] == [whole[offset : offset + length] for offset, length in ranges]
    assert transports.counters()[mode].bytes == sum(length for _, length in ranges)
    assert transports.counters()[mode].reads == 1
    assert transport.read(agent, head.arena_offset, []) == []


@pytest.mark.parametrize("mode", ["shm", "tcp"])
def test_what_is_read_merges(agent: AgentDescriptor, head: _native.Head, transports: Transports, mode: str) -> None:
    merger = _native.Merger(_native.Plan(PLAN), [0, 10_000_000])
    ranges = head.ranges(0, 20_000_000, 0, 1 << 32)
    buffers = transports.choose(agent, mode).transport.read(agent, head.arena_offset, ranges)
    raw = bytes(attach(agent).view(head.arena_offset, head.head_length))
    for (offset, _), buffer in zip(ranges, buffers, strict=True):
        merger.add(raw, offset, buffer)
    import pyarrow as pa

    groups = 0
    while (batch := merger.next()) is not None:
        groups += pa.record_batch(batch).num_rows
    assert groups == 400_000


def test_auto_takes_shared_memory_on_this_host(agent: AgentDescriptor, transports: Transports) -> None:
    choice = transports.choose(agent)
    assert choice.transport.name == "shm"
    assert "shares this host's memory" in choice.reason


def test_auto_takes_tcp_elsewhere(agent: AgentDescriptor, transports: Transports) -> None:
    elsewhere = AgentDescriptor(**{**agent.to_record(), "boot_id": "another"})
    choice = transports.choose(elsewhere)
    assert choice.transport.name == "tcp"
    assert "another host" in choice.reason
    with pytest.raises(TransportUnavailableError, match="another host"):
        transports.choose(elsewhere, "shm")


def test_what_is_not_there_is_refused_by_name(agent: AgentDescriptor, transports: Transports) -> None:
    with pytest.raises(TransportUnavailableError, match="has no RDMA device"):
        transports.choose(agent, "verbs")
    with pytest.raises(TransportUnavailableError, match="pigeon"):
        transports.choose(agent, "pigeon")


@pytest.mark.parametrize("mode", ["shm", "tcp"])
def test_another_incarnation_is_stale(
    agent: AgentDescriptor, head: _native.Head, transports: Transports, mode: str
) -> None:
    transport = transports.choose(agent, mode).transport
    earlier = AgentDescriptor(**{**agent.to_record(), "incarnation": "ab" * 16})
    with pytest.raises(StaleIncarnationError):
        transport.read(earlier, head.arena_offset, [(0, 64)])


@pytest.mark.parametrize("mode", ["shm", "tcp"])
def test_a_peer_that_dies_is_an_error_also_where_it_is_mapped(
    agent: AgentDescriptor, head: _native.Head, transports: Transports, mode: str
) -> None:
    transport = transports.choose(agent, mode).transport
    (buffer,) = transport.read(agent, head.arena_offset, [(0, 192)])
    before = bytes(buffer)
    os.kill(agent.pid, signal.SIGKILL)
    assert wait_until_gone(agent.pid)
    with pytest.raises(SlashError):
        transport.read(agent, head.arena_offset, [(0, 192)])
    assert bytes(buffer) == before  # what was handed out stays valid


def test_the_memory_of_a_peer_that_has_gone_is_let_go_of(
    agent: AgentDescriptor,
    head: _native.Head,
    request_agent: Callable[..., AgentRequest],
    transports: Transports,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Executors go, and none comes in their place."""

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:pyslash-arena")

    other = subprocess.Popen(["sleep", "600"])
    gone = ensure(request_agent(jvm_pid=other.pid))
    before = mapped()
    transport = transports.choose(agent, "shm").transport
    for peer in (agent, gone):
        transport.read(peer, head.arena_offset if peer == agent else 0, [(0, 192)])
    assert mapped() == before + 2
    other.kill()
    other.wait()
    assert wait_until_gone(gone.pid)
    monkeypatch.setattr(shm, "_LOOK_SECONDS", 0.0)
    transport.read(agent, head.arena_offset, [(0, 192)])
    assert mapped() == before + 1


def test_tcp_needs_the_query_s_token(agent: AgentDescriptor, head: _native.Head, secret: bytes) -> None:
    forged = Transports(QUERY, query_token(secret, OTHER_QUERY))
    with pytest.raises(UnauthenticatedError):
        forged.choose(agent, "tcp").transport.read(agent, head.arena_offset, [(0, 64)])
    forged.close()


def test_a_process_keeps_its_transports(agent: AgentDescriptor, secret: bytes) -> None:
    chosen: Callable[[], object] = lambda: choose_transport(agent, "auto", QUERY, query_token(secret, QUERY))  # noqa: E731
    assert chosen() is chosen()


def test_a_query_that_starts_again_may_give_its_reads_another_time(
    agent: AgentDescriptor, head: _native.Head, secret: bytes
) -> None:
    token = query_token(secret, QUERY)
    choose_transport(agent, "tcp", QUERY, token, 5)
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        with pytest.raises(AgentTimeoutError, match=r"no answer within 0\.2 s"):
            choose_transport(agent, "tcp", QUERY, token, 0.2).read(agent, head.arena_offset, [(0, 192)])
    finally:
        os.kill(agent.pid, signal.SIGCONT)


def test_what_a_process_has_mapped_for_a_query_goes_with_it(
    agent: AgentDescriptor, head: _native.Head, secret: bytes
) -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:pyslash-arena")

    close_transports(QUERY)  # what other tests have left
    before = mapped()
    choose_transport(agent, "shm", QUERY, query_token(secret, QUERY)).read(agent, head.arena_offset, [(0, 192)])
    assert mapped() == before + 1
    close_transports(OTHER_QUERY)
    assert mapped() == before + 1
    close_transports(QUERY)
    assert mapped() == before


def test_queries_do_not_close_each_others_connections(agent: AgentDescriptor, secret: bytes) -> None:
    queries = [number.to_bytes(16, "big") for number in range(1, 41)]

    def chosen() -> list[object]:
        return [choose_transport(agent, "tcp", one, query_token(secret, one)) for one in queries]

    first = chosen()
    assert all(one is other for one, other in zip(first, chosen(), strict=True))
    for query in queries:
        close_transports(query)


def test_what_nobody_asks_for_is_closed(agent: AgentDescriptor, secret: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    first = choose_transport(agent, "tcp", QUERY, query_token(secret, QUERY))
    monkeypatch.setattr(choose, "_MOST_IDLE_SECONDS", 0)
    other = choose_transport(agent, "tcp", OTHER_QUERY, query_token(secret, OTHER_QUERY))
    assert choose_transport(agent, "tcp", QUERY, query_token(secret, QUERY)) not in (first, other)
    for query in (QUERY, OTHER_QUERY):
        close_transports(query)
