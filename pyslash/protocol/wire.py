"""The control plane on the wire: a greeting in which both sides prove that they know a token, then sealed frames.

    client                                        agent
    magic, right, query, nonce      (64 bytes) ->
                                               <- incarnation, nonce, proof      (80 bytes)
    proof                           (32 bytes) ->
    frames                                    <-> frames

The agent proves itself first: whoever listens at an agent's old port learns a query's id and nothing else. Keys of the
frames come from the token and both nonces, so a recording is worth nothing on another connection. A frame is

    u32 length | u8 kind | 3 bytes zero | 16 bytes MAC | body

keyed for each direction, over the number of the frame, its first 8 bytes and its body: the beginning of an HMAC-SHA256,
which a JVM has too, and BLAKE2b for `DATA`, of which there is much. The bodies of `DATA` are left out of that on a Unix
socket, whose directory only this user can enter. Standard library only.
"""

from __future__ import annotations

import enum
import errno
import hashlib
import hmac
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyslash.errors import AgentBusyError, AgentError, MessageTooLongError, UnauthenticatedError
from pyslash.protocol.token import Right

HELLO = struct.Struct("<8sB7x16s32s")
ANSWER = struct.Struct("<16s32s")
MAGIC = b"PYSLASH\x02"
PROOF_BYTES = 32
MAX_BODY_BYTES = 4 << 20
REFUSAL = b"PYSLASH\x02 has no thread for this connection".ljust(80, b"\0")
"""In place of an agent's answer to a greeting. It proves nothing, so a client takes it as a reason to try again."""
_PIECE_BYTES = 64 << 10
_REFUSING_SECONDS = 0.1
CHUNK_BYTES = 1 << 20
_FRAME = struct.Struct("<IB3x")
_MAC_BYTES = 16
# Fewer than a call of the system takes (IOV_MAX), with the frame's own head.
PIECES_A_FRAME = 1000
# Of a Unix socket's address, with the final zero.
_SUN_PATH_BYTES = 108


class Kind(enum.IntEnum):
    """What a frame is."""

    CALL = 1
    """An action's name, a space, a grant or nothing, a line feed; the request."""
    RESULT = 2
    """JSON."""
    ERROR = 3
    """The name of a class of `pyslash.errors`, a line feed, a message."""
    DATA = 4
    """A piece of a block."""
    DONE = 5
    """The caller has written all of it."""
    PART = 6
    """The beginning of a long result, or what follows that; a `RESULT` has the end."""


class ConnectionEndedError(AgentError):
    """The other side has closed the connection, between two frames or within one."""


@dataclass(frozen=True)
class Caller:
    """The query and the right that a connection has proved."""

    query: bytes
    right: Right


class Channel:
    """One side of a greeted connection. One thread at a time uses it."""

    def __init__(self, connection: socket.socket, sends: bytes, receives: bytes) -> None:
        """Over a connected socket, whose keys both sides have agreed on."""
        self._socket = connection
        self._keys = sends, receives
        self._sent = self._received = 0
        self._announced: tuple[bytes, bytes] | None = None  # head and MAC of a frame whose body is yet to be read
        self._data_is_sealed = connection.family != socket.AF_UNIX

    def send(self, kind: Kind, body: Any, deadline: float) -> None:
        """One frame.

        Raises:
            MessageTooLongError: the other side would not take so much in one.
            TimeoutError: the other side does not take it in time.
            OSError: the connection is gone.
        """
        body = memoryview(body).cast("B")
        start = self._start(kind, [body])
        self._socket.settimeout(_left(deadline))
        if body.nbytes <= 4096:
            self._socket.sendall(start + body)
            return
        self._socket.sendall(start, socket.MSG_MORE)
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(body)

    def send_data(self, pieces: Sequence[memoryview], deadline: float) -> None:
        """One frame of data out of several pieces of memory, at most `PIECES_A_FRAME`, which are not copied.

        Raises: as `send`.
        """
        left = [memoryview(self._start(Kind.DATA, pieces)), *pieces]
        while left:
            self._socket.settimeout(_left(deadline))
            left = _without(left, self._socket.sendmsg(left))

    def send_result(self, body: bytes, deadline: float) -> None:
        """A result, however long it is.

        Raises: as `send`.
        """
        left = memoryview(body)
        while left.nbytes > MAX_BODY_BYTES:
            self.send(Kind.PART, left[:MAX_BODY_BYTES], deadline)
            left = left[MAX_BODY_BYTES:]
        self.send(Kind.RESULT, left, deadline)

    @property
    def is_local(self) -> bool:
        """Whether the other side is a process of this host and user."""
        return not self._data_is_sealed

    def announced(self, deadline: float | None) -> tuple[Kind, int]:
        """Kind and length of the next frame, whose body `receive` then reads, or `skip` drops; None: as `receive`.

        Raises: as `receive`.
        """
        if self._announced is None:
            start = bytearray(_FRAME.size + _MAC_BYTES)
            receive_exactly(self._socket, memoryview(start), deadline)
            self._announced = bytes(start[: _FRAME.size]), bytes(start[_FRAME.size :])
        length, number = _FRAME.unpack(self._announced[0])
        if number not in Kind.__members__.values() or length > (0 if number == Kind.DONE else MAX_BODY_BYTES):
            raise UnauthenticatedError(f"a frame of kind {number} and {length} bytes, where none was expected")
        return Kind(number), length

    def skip(self, deadline: float) -> None:
        """Drops the next frame, which takes no more memory than a piece of it.

        Raises: as `receive`.
        """
        _, left = self.announced(deadline)
        head, mac = self._taken()
        piece = memoryview(bytearray(min(left, _PIECE_BYTES)))
        hashed = hmac.new(self._keys[1], self._received.to_bytes(8, "little") + head, "sha256")
        while left:
            part = piece[: min(left, len(piece))]
            receive_exactly(self._socket, part, deadline)
            hashed.update(part)
            left -= len(part)
        self._check(mac, hashed.digest()[:_MAC_BYTES])

    def receive(self, deadline: float | None) -> tuple[Kind, bytes]:
        """The next frame, which is none of data, and at most `MAX_BODY_BYTES` long; None: however long it takes.

        Raises:
            TimeoutError: none comes in time.
            ConnectionEndedError: the other side has ended the connection.
            UnauthenticatedError: it is not what the other side has sent.
        """
        kind, body = self._frame(deadline, None)
        return kind, bytes(body)

    def receive_into(self, into: memoryview, deadline: float) -> tuple[Kind, memoryview]:
        """The next frame; one of data lies at the beginning of `into`, any other in memory of its own.

        Raises: as `receive`.
        """
        return self._frame(deadline, into)

    def receive_data(self, into: Places, deadline: float) -> bool:
        """Whether the next frame is of data; if it is, it fills the next places of `into`, else it waits for `receive`.

        Raises:
            AgentError: this host has no memory for it.
            Otherwise: as `receive`.
        """
        kind, length = self.announced(deadline)
        if kind is not Kind.DATA:
            return False
        head, mac = self._taken()
        pieces = into.take(length)
        receive_pieces(self._socket, pieces, deadline)
        self._check(mac, self._mac(self._keys[1], self._received, head, kind, pieces))
        return True

    def wait(self, seconds: float) -> bool:
        """Whether within the time anything comes, the end of the connection included."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        """Ends the connection, also for a thread that waits in it."""
        end(self._socket)

    def _frame(self, deadline: float | None, into: memoryview | None) -> tuple[Kind, memoryview]:
        kind, length = self.announced(deadline)
        if kind is Kind.DATA and (into is None or length > len(into)):
            raise UnauthenticatedError(f"a frame of kind {kind} and {length} bytes, where none was expected")
        head, mac = self._taken()
        body = into[:length] if into is not None and kind is Kind.DATA else memoryview(bytearray(length))
        receive_exactly(self._socket, body, deadline)
        self._check(mac, self._mac(self._keys[1], self._received, head, kind, [body]))
        return kind, body

    def _start(self, kind: Kind, body: Sequence[memoryview]) -> bytes:
        """What stands before the body of the next frame that is sent."""
        length = sum(piece.nbytes for piece in body)
        if length > MAX_BODY_BYTES:
            raise MessageTooLongError(f"a {kind.name.lower()} of {length} bytes; a frame has at most {MAX_BODY_BYTES}")
        head = _FRAME.pack(length, kind)
        mac = self._mac(self._keys[0], self._sent, head, kind, body)
        self._sent += 1
        return head + mac

    def _taken(self) -> tuple[bytes, bytes]:
        """Head and MAC of the announced frame, which is read from here on."""
        assert self._announced is not None
        announced, self._announced = self._announced, None
        return announced

    def _check(self, mac: bytes, found: bytes) -> None:
        if not hmac.compare_digest(mac, found):
            raise UnauthenticatedError("a frame whose MAC does not match: it was changed, left out or repeated")
        self._received += 1

    def _mac(self, key: bytes, number: int, head: bytes, kind: Kind, body: Sequence[memoryview]) -> bytes:
        start = number.to_bytes(8, "little") + head
        if kind is not Kind.DATA:
            return hmac.digest(key, start + b"".join(body), "sha256")[:_MAC_BYTES]
        hashed = hashlib.blake2b(start, key=key, digest_size=_MAC_BYTES)
        if self._data_is_sealed:
            for piece in body:
                hashed.update(piece)
        return hashed.digest()


class Places:
    """Pieces of memory that a stream fills one after the other."""

    def __init__(self, pieces: Sequence[memoryview]) -> None:
        """Writable, of bytes, and none of them empty."""
        self._pieces, self._at, self._filled = pieces, 0, 0

    @property
    def are_full(self) -> bool:
        """Whether nothing is left to fill."""
        return self._at == len(self._pieces)

    def take(self, length: int) -> list[memoryview]:
        """The next `length` bytes.

        Raises:
            UnauthenticatedError: there are fewer, so what comes is not what was requested.
        """
        taken = []
        while length:
            if self.are_full:
                raise UnauthenticatedError(f"{length} bytes of data more than were expected")
            piece = self._pieces[self._at][self._filled : self._filled + length]
            taken.append(piece)
            length -= piece.nbytes
            self._filled += piece.nbytes
            if self._filled == self._pieces[self._at].nbytes:
                self._at, self._filled = self._at + 1, 0
        return taken


def greet(connection: socket.socket, query: bytes, token: bytes, deadline: float) -> tuple[Channel, bytes]:
    """The client's side of the greeting: the channel, and the incarnation of the agent at its other end.

    Raises:
        UnauthenticatedError: who listens does not know the token.
        AgentBusyError: the agent has no thread for the connection at this moment.
        TimeoutError, ConnectionEndedError, OSError: it says nothing, or has gone.
    """
    if len(token) != 1 + PROOF_BYTES:
        raise UnauthenticatedError("what is given as this query's token is none")
    right, key = token[0], token[1:]
    hello = HELLO.pack(MAGIC, right, query, secrets.token_bytes(32))
    connection.settimeout(_left(deadline))
    connection.sendall(hello)
    answer = bytearray(ANSWER.size + PROOF_BYTES)
    receive_exactly(connection, memoryview(answer), deadline)
    if answer == REFUSAL:
        raise AgentBusyError("the agent has no thread for another connection: its host or container is at a limit")
    said, proof = bytes(answer[: ANSWER.size]), bytes(answer[ANSWER.size :])
    if not hmac.compare_digest(proof, _derived(key, b"agent proves", hello + said)):
        raise UnauthenticatedError("who listens there does not prove that it knows this query's token")
    connection.settimeout(_left(deadline))
    connection.sendall(_derived(key, b"client proves", hello + said))
    return Channel(connection, *_keys(key, hello + said)), ANSWER.unpack(said)[0]


def refuse(connection: socket.socket) -> None:
    """The agent's side of a greeting that it has no thread for: says so, and ends the connection.

    A client greets at once. Were that left unread, the end of the connection would be a reset, and the answer lost.
    """
    with suppress(OSError, AgentError):
        receive_exactly(connection, memoryview(bytearray(HELLO.size)), time.monotonic() + _REFUSING_SECONDS)
        connection.sendall(REFUSAL)
    end(connection)


def welcome(
    connection: socket.socket, incarnation: bytes, token_of: Callable[[bytes, Right], bytes], deadline: float
) -> tuple[Channel, Caller]:
    """The agent's side; `token_of(query, right)` is a token. Before the end of it nothing but 96 bytes is read.

    Raises:
        UnauthenticatedError: the client does not know the token, or speaks another protocol.
        TimeoutError, ConnectionEndedError, OSError: it says nothing, or has gone.
    """
    hello = bytearray(HELLO.size)
    receive_exactly(connection, memoryview(hello), deadline)
    magic, right, query, _ = HELLO.unpack(hello)
    if magic != MAGIC or right not in Right.__members__.values():
        raise UnauthenticatedError("a client that speaks another protocol")
    key = token_of(query, Right(right))[1:]
    said = ANSWER.pack(incarnation, secrets.token_bytes(32))
    transcript = bytes(hello) + said
    connection.settimeout(_left(deadline))
    connection.sendall(said + _derived(key, b"agent proves", transcript))
    proof = bytearray(PROOF_BYTES)
    receive_exactly(connection, memoryview(proof), deadline)
    if not hmac.compare_digest(proof, _derived(key, b"client proves", transcript)):
        raise UnauthenticatedError("a client that does not know its query's token")
    client, agent = _keys(key, transcript)
    return Channel(connection, agent, client), Caller(query, Right(right))


def connect_unix(path: str, timeout_seconds: float) -> socket.socket:
    """A connection to a Unix socket, however long its path is.

    Raises:
        OSError: nobody listens there.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_seconds)
        with _Reachable(path) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection


def listen_unix(path: str, backlog: int) -> socket.socket:
    """A listening Unix socket, however long its path is.

    Raises:
        OSError: it cannot be made there.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _Reachable(path) as short:
            listener.bind(short)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


def listen_tcp(host: str, backlog: int) -> socket.socket:
    """A listening socket on a port that the system chooses.

    Raises:
        OSError: the host's name or address is not this one's.
    """
    (family, *_, address), *_ = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


class _Reachable:
    """A path that fits a Unix socket's address: as it is, or through an open descriptor of its directory."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._directory: int | None = None

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) < _SUN_PATH_BYTES:
            return str(self._path)
        self._directory = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._directory}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            os.close(self._directory)


def receive_exactly(connection: socket.socket, into: memoryview, deadline: float | None) -> None:
    """Fills `into`.

    Raises:
        TimeoutError: not in time.
        ConnectionEndedError: the other side has ended the connection.
    """
    filled = 0
    while filled < len(into):
        connection.settimeout(None if deadline is None else _left(deadline))
        count = connection.recv_into(into[filled:])
        if not count:
            raise ConnectionEndedError("the other side has ended the connection")
        filled += count


def receive_pieces(connection: socket.socket, pieces: Sequence[memoryview], deadline: float) -> None:
    """Fills all of them, without a copy in between and without the interpreter's lock.

    Raises:
        AgentError: they are in a file, and this host has no memory for them.
        Otherwise: as `receive_exactly`.
    """
    left = list(pieces)
    while left:
        connection.settimeout(_left(deadline))
        try:
            count, *_ = connection.recvmsg_into(left[:PIECES_A_FRAME])
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
            raise AgentError(f"this host has no memory for {sum(one.nbytes for one in left)} bytes of blocks") from None
        if not count:
            raise ConnectionEndedError("the other side has ended the connection")
        left = _without(left, count)


def _without(pieces: list[memoryview], count: int) -> list[memoryview]:
    """What is left of them behind their first `count` bytes."""
    for at, piece in enumerate(pieces):
        if count < piece.nbytes:
            return [piece[count:], *pieces[at + 1 :]]
        count -= piece.nbytes
    return []


def end(connection: socket.socket) -> None:
    """Closes a socket, also for a thread that waits in it."""
    with suppress(OSError):  # it may not be connected any more
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _keys(key: bytes, transcript: bytes) -> tuple[bytes, bytes]:
    """Of the frames of a client, and of those of an agent."""
    return _derived(key, b"client sends", transcript), _derived(key, b"agent sends", transcript)


def _derived(key: bytes, purpose: bytes, transcript: bytes) -> bytes:
    return hmac.digest(key, b"pyslash-wire " + purpose + b"\n" + transcript, "sha256")
