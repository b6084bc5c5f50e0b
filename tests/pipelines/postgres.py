"""A PostgreSQL server of one's own, from the system's packages, on the loopback interface."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eval.cluster.standalone import free_port

_START_SECONDS = 300
_STOP_SECONDS = 120


class PostgresError(Exception):
    """There is no server; the message says what is missing, or what it said."""


@contextmanager
def postgres() -> Iterator[str]:
    """How to connect to it, as psycopg takes it.

    Raises:
        PostgresError: it is not installed, or does not start.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        raise PostgresError("PostgreSQL is not installed: apt-get install postgresql")
    programs, port = found[-1].parent, free_port("127.0.0.1")
    # It refuses to run as root.
    who: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if who:
            shutil.chown(folder, "postgres", "postgres")
        with (folder / "log").open("wb") as log:
            data = str(folder / "data")
            make = [programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
            made = subprocess.run(make, stdout=log, stderr=log, cwd=folder, **who)
            if made.returncode:
                raise PostgresError(f"initdb failed: {(folder / 'log').read_text()[-2000:]}")
            settings = ["listen_addresses=127.0.0.1", f"port={port}", f"unix_socket_directories={folder}", "fsync=off"]
            command = [programs / "postgres", "-D", data, *(part for one in settings for part in ("-c", one))]
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **who)
        try:
            _wait_for(programs, port, server, folder / "log")
            yield f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        finally:
            server.terminate()
            server.wait(_STOP_SECONDS)
    finally:
        shutil.rmtree(folder)


def _wait_for(programs: Path, port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < end:
        ready = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        if subprocess.run(ready).returncode == 0:
            return
        time.sleep(0.1)  # polling another process, up to the deadline
    raise PostgresError(f"the server did not start: {log.read_text()[-2000:]}")
