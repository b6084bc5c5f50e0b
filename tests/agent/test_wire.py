"""Attacks on the control plane by who is on the network, or holds a token that is not for that."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyslash.agent import server
from pyslash.errors import (
    AgentError,
    AgentUnavailableError,
    ForbiddenError,
    InvalidRequestError,
    SlashError,
    UnauthenticatedError,
)
from pyslash.protocol import wire
from pyslash.protocol.client import AgentClient
from pyslash.protocol.codec import body
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Checkpoint, Discard, Empty, MakeRoom, Read, Reserve, Restore, Seal
from pyslash.protocol.token import Right, query_token, request_grant
from pyslash.protocol.wire import Kind
from tests.agent.blocks import PLAN, QUERY, attach, write
from tests.agent.conftest import Pair
from tests.agent.raw import connected, opened, soon
from tests.transport.in_process import serving

MIB = 1 << 20


class Wiretap:
    """Between a client and an agent: keeps what passes, and may change it."""

    def __init__(self, agent: AgentDescriptor, change: Callable[[bytes], bytes] = lambda sent: sent) -> None:
        self._agent, self._change = agent, change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.descriptor = replace(agent, host="127.0.0.1", port=self._listener.getsockname()[1])
        self.sent: list[bytes] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            client, _ = self._listener.accept()
            agent = connected(self._agent)
            threading.Thread(target=self._pass, args=(agent, client, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(client, agent, True), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if from_client:
                    data = self._change(data)
                    self.sent.append(data)
                other.sendall(data)
        wire.end(one)
        wire.end(other)


def test_what_was_recorded_opens_nothing(agent: AgentDescriptor, secret: bytes) -> None:
    """The bytes by which a driver has dropped a query, sent once more, drop nothing."""
    tap = Wiretap(agent)
    with AgentClient(tap.descriptor, QUERY, query_token(secret, QUERY), via="tcp") as driver:
        driver.discard(7)
        with AgentClient(agent, QUERY, query_token(secret, QUERY)) as other:
            discards = other.stats()["counters"]["discards"]
    for replayed in (tap.sent, [b"".join(tap.sent)]):
        with connected(agent) as attacker:
            with contextlib.suppress(ConnectionError):
                for data in replayed:
                    attacker.sendall(data)
            answered = b""
            with contextlib.suppress(ConnectionError):
                while data := attacker.recv(4096):
                    answered += data
        assert len(answered) <= wire.ANSWER.size + wire.PROOF_BYTES  # the greeting's first half, and no answer
    with AgentClient(agent, QUERY, query_token(secret, QUERY)) as other:
        assert other.stats()["counters"]["discards"] == discards


def test_neither_token_nor_secret_is_ever_sent(agent: AgentDescriptor, secret: bytes) -> None:
    tap = Wiretap(agent)
    token = query_token(secret, QUERY)
    with AgentClient(tap.descriptor, QUERY, token, via="tcp") as driver:
        driver.describe()
    sent = b"".join(tap.sent)
    for hidden in (secret, token[1:]):
        assert hidden not in sent
        assert hidden.hex().encode() not in sent


def test_a_changed_request_is_refused(agent: AgentDescriptor, secret: bytes) -> None:
    """On the way a `discard` becomes one of another epoch."""
    tap = Wiretap(agent, lambda sent: sent.replace(b'"epoch":7', b'"epoch":9'))
    with (
        AgentClient(tap.descriptor, QUERY, query_token(secret, QUERY), via="tcp") as driver,
        pytest.raises(AgentUnavailableError),
    ):
        driver.discard(7)
    with AgentClient(agent, QUERY, query_token(secret, QUERY)) as other:
        assert other.stats()["counters"].get("discards", 0) == 0


def test_frames_count(agent: AgentDescriptor, secret: bytes) -> None:
    """A frame that is sent twice on its own connection is refused, too."""
    doubled: list[int] = []

    def double(sent: bytes) -> bytes:
        if b"discard" in sent:
            doubled.append(len(sent))
            return sent + sent
        return sent

    tap = Wiretap(agent, double)
    with AgentClient(tap.descriptor, QUERY, query_token(secret, QUERY), via="tcp") as driver:
        driver.discard(7)
        with contextlib.suppress(AgentError):
            driver.describe()
    assert doubled
    with AgentClient(agent, QUERY, query_token(secret, QUERY)) as other:
        assert other.stats()["counters"]["discards"] == 1


def test_who_listens_at_an_agent_s_old_port_learns_nothing(agent: AgentDescriptor, secret: bytes) -> None:
    """It gets a query's id and a random number, and is found out before the request."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pretend() -> None:
            with listener.accept()[0] as client:
                received.append(client.recv(4096))
                client.sendall(os.urandom(wire.ANSWER.size + wire.PROOF_BYTES))
                while data := client.recv(4096):
                    received.append(data)

        thread = threading.Thread(target=pretend)
        thread.start()
        old = replace(agent, port=listener.getsockname()[1])
        with (
            AgentClient(old, QUERY, query_token(secret, QUERY), via="tcp", secret=secret) as driver,
            pytest.raises(UnauthenticatedError, match="does not prove"),
        ):
            driver.drop()
        thread.join()
    magic, right, query, _ = wire.HELLO.unpack(b"".join(received))
    assert (magic, right, query) == (wire.MAGIC, Right.DRIVE, QUERY)


@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_a_client_that_proves_nothing_is_told_nothing(agent: AgentDescriptor, via: str) -> None:
    with connected(agent, via) as attacker:
        attacker.sendall(wire.HELLO.pack(wire.MAGIC, Right.DRIVE, QUERY, bytes(32)))
        wire.receive_exactly(attacker, memoryview(bytearray(wire.ANSWER.size + wire.PROOF_BYTES)), soon())
        attacker.sendall(bytes(wire.PROOF_BYTES))
        assert attacker.recv(1) == b""


@pytest.mark.parametrize("start_of", [b"POST / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", wire.MAGIC, b""])
@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_a_large_request_without_a_token_costs_nothing(
    agent: AgentDescriptor, client: AgentClient, start_of: bytes, via: str
) -> None:
    before = client.stats()["rss_bytes"]
    with connected(agent, via) as attacker, contextlib.suppress(ConnectionError, TimeoutError):
        attacker.sendall(start_of)
        for _ in range(300):
            attacker.sendall(bytes(MIB))
    assert client.stats()["rss_bytes"] - before < 16 * MIB


def test_a_long_frame_is_refused_before_there_is_memory_for_it(agent: AgentDescriptor, secret: bytes) -> None:
    with connected(agent) as attacker:
        wire.greet(attacker, QUERY, query_token(secret, QUERY, Right.READ), soon())
        attacker.sendall((300 * MIB).to_bytes(4, "little") + bytes([Kind.CALL, 0, 0, 0]) + bytes(16))
        assert attacker.recv(1) == b""


def test_who_may_read_may_not_do_more(agent: AgentDescriptor, client: AgentClient, secret: bytes) -> None:
    head = write(agent, 0, [0])
    client.commit(0, [head.arena_offset], PLAN)
    with AgentClient(agent, QUERY, query_token(secret, QUERY, Right.READ), via="tcp", secret=secret) as reader:
        assert reader.describe().blocks == 1
        assert len(reader.read(head.arena_offset, [(0, head.length)])[0]) == head.length
        for call in (
            reader.drop,
            lambda: reader.commit(1, [], PLAN),
            lambda: reader.release(1),
            lambda: reader.discard(1),
            lambda: reader.write(head.arena_offset, b"x"),
            lambda: reader.make_room(MakeRoom(1, 0, 1, "", 0), 5),
            lambda: reader.restore(Restore(PLAN, 0, "/tmp", []), 5),
            lambda: reader.act("reserve", Reserve(1, "ab" * 16, [], PLAN, 0, False)),
            reader.stats,
            reader.logs,
        ):
            with pytest.raises(ForbiddenError, match="needs the right"):
                call()
    assert client.describe().blocks == 1


def test_another_agent_may_not_drive(agent: AgentDescriptor, secret: bytes) -> None:
    with AgentClient(agent, QUERY, query_token(secret, QUERY, Right.REPLICATE), secret=secret) as peer:
        assert peer.act("reserve", Reserve(0, "ab" * 16, [], PLAN, 0, False)) == {"offsets": []}
        for name, request in (("discard", Discard(1)), ("drop", Empty())):
            with pytest.raises(ForbiddenError, match="needs the right to drive"):
                peer.act(name, request)


def test_who_may_replicate_neither_fences_nor_replaces(
    agent: AgentDescriptor, client: AgentClient, secret: bytes
) -> None:
    """A reservation begins a run, or a share of its own: only as an agent makes it that a driver has told to."""
    source = "ab" * 16
    head = write(agent, 0, [0])
    client.commit(0, [head.arena_offset], PLAN, 3)
    forged = [
        Reserve(1, source, [], PLAN, 1 << 62, True),
        Reserve(1 << 62, source, [[0, 64, 7]], PLAN, 3, False),
        Reserve(0, source, [], PLAN, 3, True, settled=True),
        Reserve(0, source, [], PLAN, 4, True),
    ]
    token = query_token(secret, QUERY, Right.REPLICATE)
    for other in (None, bytes(32)):
        with AgentClient(agent, QUERY, token, secret=other) as thief:
            for request in forged:
                with pytest.raises(ForbiddenError, match="needs the grant"):
                    thief.act("reserve", request)
            for run in (4, 1 << 62):
                with pytest.raises(InvalidRequestError, match="nothing of run"):
                    thief.act("seal", Seal(0, source, PLAN, run))
    # A grant is for one request.
    with opened(agent, token) as channel:
        good = body(forged[3])
        grant = request_grant(secret, QUERY, good)
        channel.send(Kind.CALL, f"reserve {grant}\n".encode() + body(forged[0]), soon())
        assert channel.receive(soon())[1].startswith(b"ForbiddenError")
    assert client.describe().blocks == 1
    assert client.discard(1, 3) == 0
    client.commit(1, [write(agent, 1, [0]).arena_offset], PLAN, 3)


def test_a_token_of_one_right_is_none_of_another(agent: AgentDescriptor, secret: bytes) -> None:
    reader = query_token(secret, QUERY, Right.READ)
    with AgentClient(agent, QUERY, bytes([Right.DRIVE]) + reader[1:]) as forged, pytest.raises(UnauthenticatedError):
        forged.drop()


def test_a_directory_needs_a_grant(agent: AgentDescriptor, client: AgentClient, secret: bytes, tmp_path: Path) -> None:
    """A valid token alone writes no file, and reads none: only who knows the secret names a directory."""
    head = write(agent, 0, [0])
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    stored = Checkpoint(0, [head.arena_offset], PLAN, 0, own, "0.arrow", True)
    written = client.checkpoint(stored, 10)
    with AgentClient(agent, QUERY, query_token(secret, QUERY)) as thief:
        for call in (
            lambda: thief.checkpoint(replace(stored, directory=other), 10),
            lambda: thief.checkpoint(stored, 10),
            lambda: thief.restore(Restore(PLAN, 0, own, [["0.arrow", written["bytes"], written["crc"]]]), 10),
            lambda: thief.make_room(MakeRoom(1, 0, 1, other, MIB), 10),
        ):
            with pytest.raises(ForbiddenError, match="no grant"):
                call()
    forger = AgentClient(agent, QUERY, query_token(secret, QUERY), secret=bytes(32))
    with forger, pytest.raises(ForbiddenError, match="no grant"):
        forger.checkpoint(stored, 10)
    assert not Path(other).exists()


def test_in_local_mode_nobody_listens_on_the_network(start: Callable[..., Pair], secret: bytes) -> None:
    agent, client = start(tcp=False)
    assert agent.port == 0
    assert client.describe().epoch == -1
    assert listening_sockets(agent.pid) == []


def test_elsewhere_one_port_is_open(agent: AgentDescriptor) -> None:
    assert listening_sockets(agent.pid) == [agent.port]


def listening_sockets(pid: int) -> list[int]:
    """TCP ports on which a process listens."""
    inodes = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(file))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.append(int(fields[1].rpartition(":")[2], 16))
    return found


@pytest.fixture
def impatient(secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentDescriptor]:
    """An agent that gives a peer half a second to take an answer; it holds one block."""
    monkeypatch.setattr(server, "_ANSWER_SECONDS", 0.5)
    with serving(secret, tmp_path, 64 * MIB) as made:
        head = write(made.descriptor, 0, [0], range(500_000))
        with AgentClient(made.descriptor, QUERY, query_token(secret, QUERY)) as driver:
            driver.commit(0, [head.arena_offset], PLAN)
        yield made.descriptor


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_a_read_that_is_never_taken_holds_no_memory(
    impatient: AgentDescriptor, secret: bytes, via: str, leaves: bool
) -> None:
    """Whether the peer goes away or stays and reads nothing: its block is free once the query is dropped."""
    ((offset, length, *_),) = attach(impatient).blocks()
    token = query_token(secret, QUERY)
    with opened(impatient, token, via) as reader:
        ticket = body(Read([[offset, [[0, length]] * 4]], impatient.incarnation))
        reader.send(Kind.CALL, b"read \n" + ticket, soon())
        if leaves:
            reader.close()
        with AgentClient(impatient, QUERY, token) as driver:
            driver.drop()
            until = soon()
            while driver.stats()["pinned"] and time.monotonic() < until:
                pass
            assert driver.stats()["pinned"] == 0
    assert attach(impatient).blocks() == []


def test_errors_keep_their_class(client: AgentClient) -> None:
    with pytest.raises(InvalidRequestError, match="there is no action"):
        client.act("format_disk", Empty())
    with pytest.raises(SlashError):
        client.commit(0, [], "no plan at all")
