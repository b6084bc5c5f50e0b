"""Moves bytes over a connected queue pair: lists of linked work requests, every completion checked, one deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from pyslash.errors import AgentTimeoutError, AgentUnavailableError, RemoteAccessError, SlashError, VerbsError
from pyslash.rdma.completions import Completions
from pyslash.rdma.device import Device
from pyslash.rdma.queue_pair import QueuePair
from pyslash.rdma.work_request import WorkRequests

MESSAGE_BYTES = 1 << 20
"""Most bytes of one work request, if the device takes as many: enough for full bandwidth, and several are in flight."""

# A list is posted by one call, which is one doorbell, and has one completion; another follows while it is under way.
_LISTS_IN_FLIGHT = 2
# After the last completion: so many polls in a row (40 us, which is longer than a small READ takes), then for so long
# with the interpreter offered to other threads in between, then with pauses in proportion to the time without any.
_POLLS_IN_A_ROW = 256
_SPIN_SECONDS = 5e-3
_PAUSE_SHARE = 1 / 16
_LONGEST_PAUSE_SECONDS = 10e-3

Operation = Literal["IBV_WR_RDMA_READ", "IBV_WR_RDMA_WRITE"]

_BY_STATUS: dict[str, type[SlashError]] = {
    "IBV_WC_REM_ACCESS_ERR": RemoteAccessError,
    "IBV_WC_REM_INV_REQ_ERR": RemoteAccessError,
    "IBV_WC_REM_OP_ERR": RemoteAccessError,
    "IBV_WC_RETRY_EXC_ERR": AgentUnavailableError,
    "IBV_WC_RNR_RETRY_EXC_ERR": AgentUnavailableError,
}


class Piece(NamedTuple):
    """`length` bytes between a local and a remote address."""

    local: int
    remote: int
    length: int


class Mover:
    """One thread's use of a queue pair and its own completion queue. After any error the pair has to be closed."""

    def __init__(self, device: Device, pair: QueuePair, completions: Completions) -> None:
        """Over a connected pair."""
        verbs = device.verbs
        self._post_send, self._take = pair.verbs_qp.post_send, completions.take
        self._requests = {name: WorkRequests(verbs, name) for name in get_args(Operation)}
        self._most = device.max_in_flight
        self._list = max(1, self._most // _LISTS_IN_FLIGHT)
        self._message = min(MESSAGE_BYTES, device.max_message)
        self._verbs = verbs
        self._failure = verbs.pyverbs_error.PyverbsError
        self._errors = {verbs.constant(name): (name, error) for name, error in _BY_STATUS.items()}

    def move(
        self, operation: Operation, pieces: Sequence[Piece], lkey: int, rkey: int, what: str, deadline: float
    ) -> None:
        """Everything has been moved when this returns.

        Args:
            operation: READ into, or WRITE from, the local addresses.
            pieces: what to move; cut into messages here.
            lkey: key of the registered memory that holds all local addresses.
            rkey: the peer's key for all remote addresses.
            what: named in errors.
            deadline: of `time.monotonic`.

        Raises:
            RemoteAccessError: the peer's device refused; the key or the range is wrong, or the access not allowed.
            AgentUnavailableError: it does not answer.
            AgentTimeoutError: not all was moved by the deadline.
            VerbsError: the local device failed.
        """
        # One flat loop: a small READ takes so little that each further call of Python is a tenth of it.
        requests = self._requests[operation]
        take, most = self._take, self._most
        for _, _, length in pieces:
            if length > self._message:
                pieces = _messages(pieces, self._message)
                break
        total = len(pieces)
        posted = done = polls = 0
        idle_since = 0.0
        try:
            while done < total:
                while posted < total and posted - done + (count := min(self._list, total - posted)) <= most:
                    if count > len(requests.pairs):
                        requests.grow(count)
                    for request, entry in reversed(requests.pairs[:count]):
                        entry.addr, remote, entry.length = pieces[posted]
                        entry.lkey = lkey
                        request.set_wr_rdma(rkey, remote)
                        request.wr_id = posted
                        posted += 1
                    self._post_send(requests.pairs[count - 1][0])
                completion = take()
                if completion is not None:
                    number, status, vendor_code = completion
                    if status:
                        raise self._error(what, number, status, vendor_code)
                    # Requests of one queue pair complete in order.
                    done, polls = number + 1, 0
                elif (polls := polls + 1) > _POLLS_IN_A_ROW:
                    now = time.monotonic()
                    if polls == _POLLS_IN_A_ROW + 1:
                        idle_since = now
                    if now > deadline:
                        raise AgentTimeoutError(f"{what}: {done} of {total} messages completed by the deadline")
                    # Even without a pause, sleeping lets other threads have the interpreter.
                    idle = now - idle_since
                    time.sleep(min(idle * _PAUSE_SHARE, _LONGEST_PAUSE_SECONDS) if idle > _SPIN_SECONDS else 0)
        except self._failure as error:
            raise VerbsError(f"{what}: {error}") from None

    def _error(self, what: str, number: int, status: int, vendor_code: int) -> SlashError:
        name, error = self._errors.get(status, ("", VerbsError))
        words = self._verbs.status_name(status)
        return error(f"{what}: message {number} failed: {words} {name} (vendor code {vendor_code})")


def _messages(pieces: Sequence[Piece], most: int) -> list[Piece]:
    """The same bytes in pieces of at most `most`.

    >>> _messages([Piece(0, 100, 3), Piece(4, 200, 5)], 4)
    [Piece(local=0, remote=100, length=3), Piece(local=4, remote=200, length=4), Piece(local=8, remote=204, length=1)]
    """
    return [
        Piece(local + at, remote + at, min(most, whole - at))
        for local, remote, whole in pieces
        for at in range(0, whole, most)
    ]
