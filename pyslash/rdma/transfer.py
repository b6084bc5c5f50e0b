"""Moving bytes over a connected queue pair: a pipeline of work requests, every completion checked, one deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from pyslash.errors import AgentTimeoutError, AgentUnavailableError, RemoteAccessError, SlashError, VerbsError
from pyslash.rdma.device import Device
from pyslash.rdma.queue_pair import QueuePair

MESSAGE_BYTES = 1 << 20
"""Most bytes of one work request, if the device takes as many: enough for full bandwidth, and several are in flight."""

# One completion for so many requests: each costs about a microsecond to take.
_SIGNAL_EVERY = 8
_POLL_MOST = 16
# After the last completion: so many polls in a row, then for so long with the interpreter offered to other threads in
# between, then with pauses.
_POLLS_IN_A_ROW = 16
_SPIN_SECONDS = 5e-3
_PAUSE_SECONDS = 200e-6

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

    def __init__(self, device: Device, pair: QueuePair, completions: Any) -> None:
        """Over a connected pair."""
        verbs = device.verbs
        self._pair, self._completions = pair.verbs_qp, completions
        self._most = device.max_in_flight
        self._message = min(MESSAGE_BYTES, device.max_message)
        self._verbs = verbs
        self._opcodes = {name: verbs.constant(name) for name in get_args(Operation)}
        self._failure = verbs.pyverbs_error.PyverbsError
        self._success = verbs.constant("IBV_WC_SUCCESS")
        self._signaled = verbs.constant("IBV_SEND_SIGNALED")
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
        messages = [message for piece in pieces for message in self._cut(piece)]
        try:
            self._run(self._opcodes[operation], messages, lkey, rkey, what, deadline)
        except self._failure as error:
            raise VerbsError(f"{what}: {error}") from None

    def _run(self, opcode: int, messages: list[Piece], lkey: int, rkey: int, what: str, deadline: float) -> None:
        posted = done = polls = 0
        idle_since = time.monotonic()
        while done < len(messages):
            while posted < len(messages) and posted - done < self._most:
                self._post(opcode, messages[posted], posted, posted + 1 == len(messages), lkey, rkey)
                posted += 1
            count, completions = self._completions.poll(_POLL_MOST)
            if count:
                done = self._check(completions, what)
                polls, idle_since = 0, time.monotonic()
            elif (polls := polls + 1) > _POLLS_IN_A_ROW:
                now = time.monotonic()
                if now > deadline:
                    raise AgentTimeoutError(f"{what}: {done} of {len(messages)} messages completed by the deadline")
                # Even without a pause, sleeping lets other threads have the interpreter.
                time.sleep(_PAUSE_SECONDS if now - idle_since > _SPIN_SECONDS else 0)

    def _cut(self, piece: Piece) -> Sequence[Piece]:
        if piece.length <= self._message:
            return (piece,)
        return [
            Piece(piece.local + at, piece.remote + at, min(self._message, piece.length - at))
            for at in range(0, piece.length, self._message)
        ]

    def _post(self, opcode: int, message: Piece, number: int, is_last: bool, lkey: int, rkey: int) -> None:
        wr = self._verbs.wr
        signaled = is_last or number % _SIGNAL_EVERY == _SIGNAL_EVERY - 1
        request = wr.SendWR(
            wr_id=number,
            opcode=opcode,
            num_sge=1,
            sg=[wr.SGE(message.local, message.length, lkey)],
            send_flags=self._signaled if signaled else 0,
        )
        request.set_wr_rdma(rkey, message.remote)
        self._pair.post_send(request)

    def _check(self, completions: Sequence[Any], what: str) -> int:
        """How many messages are done: requests of one queue pair complete in order."""
        for completion in completions:
            if completion.status != self._success:
                name, error = self._errors.get(int(completion.status), ("", VerbsError))
                words = self._verbs.status_name(int(completion.status))
                raise error(
                    f"{what}: message {completion.wr_id} failed: {words} {name} (vendor code {completion.vendor_err})"
                )
        return int(completions[-1].wr_id) + 1
