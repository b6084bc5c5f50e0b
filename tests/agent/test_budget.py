"""Requests that are large, many or slow: what an agent may be made to hold of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pyslash.agent.budget import Budget
from pyslash.errors import AgentBusyError, InvalidRequestError
from pyslash.protocol.bounds import MAX_RANGES_BYTES, MAX_SMALL_BYTES
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Read, Reserve
from pyslash.protocol.token import Right, query_token
from pyslash.protocol.wire import MAX_BODY_BYTES, Channel, Kind
from tests.agent.blocks import PLAN, QUERY, write
from tests.agent.conftest import MIB
from tests.agent.raw import opened, soon


def most_resident_bytes(pid: int) -> int:
    """What a process has held at most since it started."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmHWM")


@contextmanager
def channels(agent: AgentDescriptor, token: bytes, count: int) -> Iterator[list[Channel]]:
    """So many greeted connections."""
    with ExitStack() as stack:
        yield [stack.enter_context(opened(agent, token)) for _ in range(count)]


def asked_at_once(held: list[Channel], call: bytes) -> list[tuple[Kind, bytes]]:
    """The answers to the same call on each connection."""
    answers: list[tuple[Kind, bytes]] = []

    def ask(channel: Channel) -> None:
        channel.send(Kind.CALL, call, soon())
        answers.append(channel.receive(soon()))

    threads = [threading.Thread(target=ask, args=(channel,)) for channel in held]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(held)
    return answers


def many_ranges(size: int) -> bytes:
    """A request to read of about so many bytes, which takes many times as much once it is parsed."""
    start, end = b'read \n{"incarnation":"","blocks":[[0,[', b"[0,1]]]]}"
    return start + b"[0,1]," * ((size - len(start) - len(end)) // 6) + end


def test_who_may_read_sends_little(agent: AgentDescriptor, client: AgentClient, secret: bytes) -> None:
    """20 bodies of 4 MiB at once: they are refused unread, and the connection goes on."""
    with channels(agent, query_token(secret, QUERY, Right.READ), 20) as held:
        for kind, answer in asked_at_once(held, many_ranges(MAX_BODY_BYTES)):
            assert kind is Kind.ERROR
            assert answer.startswith(b"InvalidRequestError\n")
            assert str(MAX_RANGES_BYTES).encode() in answer
        assert {kind for kind, _ in asked_at_once(held, b"describe \n{}")} == {Kind.RESULT}
    assert most_resident_bytes(agent.pid) < 200 * MIB


def test_many_readers_at_once_stay_within_their_budget(
    agent: AgentDescriptor, client: AgentClient, secret: bytes
) -> None:
    with channels(agent, query_token(secret, QUERY, Right.READ), 100) as held:
        answers = asked_at_once(held, many_ranges(MAX_SMALL_BYTES))
        assert {answer.partition(b"\n")[0] for _, answer in answers} == {b"StaleIncarnationError"}  # read to the end
    assert most_resident_bytes(agent.pid) < 200 * MIB


def test_no_message_but_one_with_a_plan_is_long(agent: AgentDescriptor, client: AgentClient) -> None:
    """For a driver, too: what is bounded is the message."""
    with pytest.raises(InvalidRequestError, match=f"a read request has at most {MAX_RANGES_BYTES} bytes"):
        client.act("read", Read([[0, [[0, 1]] * 60_000]] * 3, agent.incarnation))


def test_a_read_of_many_ranges_takes_several_requests(agent: AgentDescriptor, client: AgentClient) -> None:
    head = write(agent, 0, [0])
    client.commit(0, [head.arena_offset], PLAN)
    ranges = [(at % (head.length - 1), 1) for at in range(30_000)]
    (whole,) = client.read(head.arena_offset, [(0, head.length)])
    found = client.read(head.arena_offset, ranges)
    assert [bytes(one) for one in found] == [bytes(whole)[at : at + 1] for at, _ in ranges]


def test_a_request_waits_for_room_and_is_told_when_there_is_none() -> None:
    room = Budget(Right.DRIVE, 100_000)
    with room.held(60_000) as first, room.held(4096), room.held(40_000):
        with pytest.raises(AgentBusyError, match="60000 bytes within 0 s"), room.held(60_000, seconds=0):
            pass
        waiting = threading.Thread(target=first.release)
        waiting.start()
        with room.held(60_000):
            first.release()  # again: changes nothing
            with pytest.raises(AgentBusyError), room.held(5000, seconds=0):
                pass
        waiting.join()
    with room.held(100_000, seconds=0):
        pass


def test_slow_readers_starve_neither_small_reads_nor_the_driver(
    agent: AgentDescriptor, client: AgentClient, secret: bytes
) -> None:
    slow = MAX_BODY_BYTES // MAX_RANGES_BYTES + 1
    with channels(agent, query_token(secret, QUERY, Right.READ), slow) as held:
        for channel in held:  # announced, and never sent
            channel._socket.sendall(MAX_RANGES_BYTES.to_bytes(4, "little") + bytes([Kind.CALL, 0, 0, 0]) + bytes(16))
        with AgentClient(agent, QUERY, query_token(secret, QUERY, Right.READ)) as reader:
            assert reader.describe().epoch == -1
        head = write(agent, 0, [0])
        assert len(client.commit(0, [head.arena_offset], PLAN).blocks) == 1
        room = [[64 * at, 64, 0] for at in range(500)]
        assert len(json.dumps(room)) > 4096
        places = client.act("reserve", Reserve(1, "ab" * 16, room, PLAN, 0, True))["offsets"]
        assert len(places) == len(room)
