"""The pipeline of work requests, over a device that is made up."""

from __future__ import annotations

import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyslash.errors import AgentTimeoutError, AgentUnavailableError, RemoteAccessError, SlashError, VerbsError
from pyslash.rdma import transfer
from pyslash.rdma.transfer import Mover, Piece

READ, WRITE, SIGNALED = 4, 1, 2
STATUS = {name: code for code, name in enumerate(transfer._BY_STATUS, 10)}


class BrokenError(Exception):
    """As PyverbsError."""


class Request:
    """A work request, and its entry."""

    def __init__(self, **_: object) -> None:
        self.sg_list: Any = None
        self.next_wr: Request | None = None

    def set_wr_rdma(self, rkey: int, remote: int) -> None:
        self.rkey, self.remote = rkey, remote

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == "sg_list" and found is None:
            raise AttributeError(name)
        return found


class Device:
    """Completes what is posted `late` polls after; message `bad` ends with `status`, and the posting of `refused`."""

    def __init__(self, depth: int, most: int, late: int = 0, bad: int = -1, status: int = 0, refused: int = -1) -> None:
        self.max_in_flight, self.max_message = depth, most
        self.late, self.bad, self.status, self.refused = late, bad, status, refused
        self.posted: list[tuple[int, int, int, int, int, int]] = []
        self.outstanding = self.deepest = self.polls = self.lists = 0
        self.unsignaled = 0
        self.queue: deque[tuple[int, int]] = deque()
        constants = {"IBV_WR_RDMA_READ": READ, "IBV_WR_RDMA_WRITE": WRITE, "IBV_SEND_SIGNALED": SIGNALED, **STATUS}
        self.verbs = SimpleNamespace(
            wr=SimpleNamespace(SGE=lambda *_: SimpleNamespace(), SendWR=Request),
            constant=constants.__getitem__,
            pyverbs_error=SimpleNamespace(PyverbsError=BrokenError),
            status_name=lambda status: f"status {status}",
        )
        self.mover = Mover(self, SimpleNamespace(verbs_qp=self), self)  # type: ignore[arg-type]

    def post_send(self, first: Request) -> None:
        """A list, as `ibv_post_send` takes it."""
        self.lists += 1
        request: Request | None = first
        while request is not None:
            self._post(request)
            request = request.next_wr

    def _post(self, request: Request) -> None:
        entry = request.sg_list
        if request.wr_id == self.refused:
            raise BrokenError("Failed to post send")
        self.posted.append((request.opcode, entry.addr, request.remote, entry.length, entry.lkey, request.rkey))
        self.outstanding += 1
        self.deepest = max(self.deepest, self.outstanding)
        self.unsignaled += 1
        if request.send_flags == SIGNALED or request.wr_id == self.bad:
            self.queue.append((request.wr_id, self.unsignaled))
            self.unsignaled = 0

    def take(self) -> tuple[int, int, int] | None:
        self.polls += 1
        if not self.queue or self.polls <= self.late:
            return None
        self.polls = 0
        number, covers = self.queue.popleft()
        self.outstanding -= covers
        return (number, self.status, 7) if number == self.bad else (number, 0, 0)

    def move(self, pieces: list[Piece], operation: Any = "IBV_WR_RDMA_READ", seconds: float = 20) -> None:
        self.mover.move(operation, pieces, 11, 22, "the test", time.monotonic() + seconds)


PIECES = st.lists(st.builds(Piece, st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 60)), max_size=30)


@given(PIECES, st.integers(1, 20), st.integers(1, 64), st.integers(0, 3))
def test_every_byte_is_moved_once_and_no_deeper_than_allowed(
    pieces: list[Piece], depth: int, most: int, late: int
) -> None:
    device = Device(depth, most, late)
    device.move(pieces)
    moved = [(local + at, remote + at) for _, local, remote, length, _, _ in device.posted for at in range(length)]
    assert moved == [(piece.local + at, piece.remote + at) for piece in pieces for at in range(piece.length)]
    assert all(0 < length <= most for _, _, _, length, _, _ in device.posted)
    assert {(opcode, *keys) for opcode, _, _, _, *keys in device.posted} <= {(READ, 11, 22)}
    assert device.deepest <= device.max_in_flight
    assert (device.outstanding, len(device.queue), device.unsignaled) == (0, 0, 0)
    messages = len(device.posted)
    assert device.lists == -(-messages // max(1, depth // 2))  # each with one doorbell


def test_one_request_serves_reads_and_writes() -> None:
    device = Device(8, 1 << 20)
    device.move([Piece(1, 2, 3)])
    device.move([Piece(4, 5, 6)], "IBV_WR_RDMA_WRITE")
    assert device.posted == [(READ, 1, 2, 3, 11, 22), (WRITE, 4, 5, 6, 11, 22)]


@pytest.mark.parametrize(("name", "error"), [*transfer._BY_STATUS.items(), ("another", VerbsError)])
def test_a_failed_completion_is_its_typed_error(name: str, error: type[SlashError]) -> None:
    device = Device(16, 100, bad=4, status=STATUS.get(name, 99))
    with pytest.raises(error, match=r"the test: message 4 failed: status \d+ .*\(vendor code 7\)"):
        device.move([Piece(0, 0, 1000)])
    assert {RemoteAccessError, AgentUnavailableError} == set(transfer._BY_STATUS.values())


def test_a_post_that_is_refused_is_ours() -> None:
    with pytest.raises(VerbsError, match="the test: Failed to post send"):
        Device(8, 100, refused=3).move([Piece(0, 0, 1000)])


def test_waiting_ends_at_the_deadline() -> None:
    device = Device(8, 100, late=1 << 60)
    began = time.monotonic()
    with pytest.raises(AgentTimeoutError, match="the test: 0 of 10 messages completed by the deadline"):
        device.move([Piece(0, 0, 1000)], seconds=0.05)
    assert time.monotonic() - began < 5
