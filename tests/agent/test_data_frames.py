"""Frames of data out of many pieces of memory and into others, and messages that are longer than a frame."""

from __future__ import annotations

import mmap
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyslash.agent.server import _frames
from pyslash.agent.store.figures import Figures
from pyslash.errors import AgentError, MessageTooLongError, UnauthenticatedError
from pyslash.protocol import wire
from pyslash.protocol.caller import Via
from pyslash.protocol.client import AgentClient
from pyslash.protocol.messages import Commit, Empty
from pyslash.protocol.token import query_token
from pyslash.protocol.wire import MAX_BODY_BYTES, PIECES_A_FRAME, Channel, Kind, Places
from tests.agent.blocks import PLAN, QUERY
from tests.transport.in_process import serving


def until() -> float:
    """A deadline."""
    return time.monotonic() + 20


def channels(kind: socket.AddressFamily = socket.AF_UNIX) -> tuple[Channel, Channel]:
    """Both ends; over TCP the bodies of data have a MAC."""
    if kind is socket.AF_UNIX:
        one, other = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            one = socket.create_connection(listener.getsockname())
            other, _ = listener.accept()
    return Channel(one, b"a" * 32, b"b" * 32), Channel(other, b"b" * 32, b"a" * 32)


def sizes(most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, most), min_size=1, max_size=60)


@pytest.mark.parametrize("kind", [socket.AF_UNIX, socket.AF_INET], ids=["unix", "tcp"])
@given(sent=sizes(90_000), places=st.randoms(use_true_random=False))
def test_every_byte_goes_to_its_place(kind: socket.AddressFamily, sent: list[int], places: Any) -> None:
    data = os.urandom(sum(sent))
    pieces, at = [], 0
    for size in sent:
        pieces.append(memoryview(data)[at : at + size])
        at += size
    cuts = sorted({places.randrange(1, len(data) + 1) for _ in range(40)} | {len(data)})
    into = [memoryview(bytearray(end - begin)) for begin, end in zip([0, *cuts], cuts, strict=False)]
    one, other = channels(kind)
    try:
        frames = list(_frames(pieces))

        def send() -> None:
            for frame in frames:
                one.send_data(frame, until())

        sender = threading.Thread(target=send)
        sender.start()
        target = Places(into)
        while not target.are_full:
            assert other.receive_data(target, until())
        sender.join()
        one.send(Kind.RESULT, b"{}", until())
        assert not other.receive_data(target, until())
        assert other.receive(until()) == (Kind.RESULT, b"{}")
    finally:
        one.close()
        other.close()
    assert b"".join(into) == data


def test_many_small_ranges_share_a_frame() -> None:
    frames = list(_frames(memoryview(bytes(7)) for _ in range(2 * PIECES_A_FRAME + 1)))
    assert [len(frame) for frame in frames] == [PIECES_A_FRAME, PIECES_A_FRAME, 1]
    large = list(_frames([memoryview(bytes((2 << 20) + 5)), memoryview(bytes(3))]))
    assert [[piece.nbytes for piece in frame] for frame in large] == [[1 << 20], [1 << 20], [5, 3]]


def test_more_than_was_requested_is_refused() -> None:
    one, other = channels()
    one.send_data([memoryview(bytes(8))], until())
    with pytest.raises(UnauthenticatedError, match="1 bytes of data more than were expected"):
        other.receive_data(Places([memoryview(bytearray(7))]), until())


def test_memory_that_the_host_does_not_have_is_a_typed_error_and_no_signal(tmp_path: Path) -> None:
    """A page that cannot be had: here one behind the end of its file."""
    with open(tmp_path / "landing", "w+b") as file:
        file.truncate(2 * mmap.PAGESIZE)
        mapped = mmap.mmap(file.fileno(), 2 * mmap.PAGESIZE)
        file.truncate(mmap.PAGESIZE)
    one, other = channels()
    one.send_data([memoryview(bytes(2 * mmap.PAGESIZE))], until())
    wire.receive_pieces(other._socket, [memoryview(bytearray(24))], until())
    with pytest.raises(AgentError, match=f"no memory for {2 * mmap.PAGESIZE} bytes of blocks"):
        wire.receive_pieces(other._socket, [memoryview(mapped)], until())


def test_a_request_that_is_too_long_is_not_sent_and_the_connection_goes_on(secret: bytes, tmp_path: Path) -> None:
    with serving(secret, tmp_path) as agent, AgentClient(agent.descriptor, QUERY, query_token(secret, QUERY)) as client:
        with pytest.raises(
            MessageTooLongError, match=r"agent .*: commit: a call of 4\d+ bytes; a frame has at most 4194304"
        ):
            client.act("commit", Commit(0, [], PLAN + " " * (MAX_BODY_BYTES + 100_000 - len(PLAN))))
        assert client.logs() == ""


@pytest.mark.parametrize("length", [MAX_BODY_BYTES - 13, MAX_BODY_BYTES - 12, 3 * MAX_BODY_BYTES])
@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_an_answer_may_be_longer_than_a_frame(
    secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, via: Via, length: int
) -> None:
    monkeypatch.setattr(Figures, "describe", lambda *_: {"blocks": "x" * length})
    token = query_token(secret, QUERY)
    with serving(secret, tmp_path) as agent, AgentClient(agent.descriptor, QUERY, token, via=via) as client:
        assert client.act("describe", Empty()) == {"blocks": "x" * length}
        assert client.logs() == ""
