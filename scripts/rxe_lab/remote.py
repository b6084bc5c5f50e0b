"""A command on another lab host: `remote.py serve` on that host, `remote.py run HOST COMMAND...` on the first one.

The network between the hosts is a socket pair of the lab's own process, so nobody else can reach the server.
A request is one JSON line {argv, cwd, environment}. Output flows back in frames of a 4-byte length and as many bytes;
an empty frame ends it, and the exit status follows. When the connection breaks, the command's whole session is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import IO

PORT = 1077
_LENGTH = struct.Struct("<I")
_STATUS = struct.Struct("<i")
_CONNECT_SECONDS = 60


def serve() -> None:
    """Answers until the host is powered off."""
    with socket.create_server(("", PORT), backlog=16) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def run(host: str, argv: list[str]) -> int:
    """Runs a command on `host` with this process's environment and folder; its output becomes ours."""
    with _connect(host) as connection:
        request = {"argv": argv, "cwd": os.getcwd(), "environment": dict(os.environ)}
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answer:
            while length := _LENGTH.unpack(answer.read(_LENGTH.size))[0]:
                os.write(sys.stdout.fileno(), answer.read(length))
            return int(_STATUS.unpack(answer.read(_STATUS.size))[0])


def _connect(host: str) -> socket.socket:
    # The other host may still be booting.
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            connection = socket.create_connection((host, PORT), timeout=5)
            connection.settimeout(None)
            return connection
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _answer(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as lines:
        request = json.loads(lines.readline())
        environment = {**request["environment"], **_own_names()}
        process = subprocess.Popen(
            request["argv"],
            cwd=request["cwd"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=_end_with, args=(lines, process), daemon=True).start()
        assert process.stdout is not None
        try:
            while piece := os.read(process.stdout.fileno(), 65536):
                connection.sendall(_LENGTH.pack(len(piece)) + piece)
            connection.sendall(_LENGTH.pack(0) + _STATUS.pack(process.wait()))
            connection.shutdown(socket.SHUT_RDWR)  # the other thread still holds the socket open
        except OSError:
            _end(process)


def _end_with(lines: IO[bytes], process: subprocess.Popen[bytes]) -> None:
    # Whoever asked sends nothing more: the end of the stream is their end.
    with contextlib.suppress(OSError, ValueError):
        lines.read()
    if process.poll() is None:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _own_names() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PYSLASH_LAB_")}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["run", host, *argv] if argv:
            sys.exit(run(host, argv))
        case _:
            sys.exit("usage: remote.py serve | run HOST COMMAND...")
