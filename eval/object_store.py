"""An S3 on this machine, moto's, behind a proxy that lets each request wait as one over a network does."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eval.refusal import CannotRunError

BUCKET = "slash"
JARS = Path(__file__).resolve().parents[1] / "build" / "hadoop" / "s3"
_BYTES = 1 << 20


@contextmanager
def slow_s3(milliseconds: float) -> Iterator[tuple[str, dict[str, str]]]:
    """The `s3a://` location of an empty bucket, and Spark's settings to find it; pyarrow does so by the environment.

    Raises:
        CannotRunError: Hadoop's S3 connector is not there.
    """
    if not (JARS / ".complete").exists():
        raise CannotRunError("no build/hadoop/s3: scripts/hadoop.sh fetches Hadoop's S3 connector")
    with s3_server() as port, _proxy(port, milliseconds / 1000) as waiting:
        os.environ |= environment(waiting)
        yield make_bucket(), s3a_settings() | {"spark.driver.extraClassPath": f"{JARS}/*"}


@contextmanager
def s3_server() -> Iterator[int]:
    """The port of a server on loopback."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs every request otherwise
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield port
    finally:
        server.stop()


def environment(port: int) -> dict[str, str]:
    """The variables by which clients find a server on loopback."""
    return {
        **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test"),
        **dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), "us-east-1"),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }


def make_bucket() -> str:
    """An empty one in the server that the environment names, as Spark writes it."""
    import boto3

    boto3.client("s3").create_bucket(Bucket=BUCKET)
    return f"s3a://{BUCKET}"


def s3a_settings() -> dict[str, str]:
    """Spark's, of that server."""
    s3a = {
        "endpoint": os.environ["AWS_ENDPOINT_URL"],
        "endpoint.region": os.environ["AWS_REGION"],
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}


@contextmanager
def _proxy(port: int, seconds: float) -> Iterator[int]:
    """The port of a proxy to that port which passes on each piece of a request so much later, and answers at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, port, seconds), daemon=True).start()
        yield listener.getsockname()[1]


def _serve(listener: socket.socket, port: int, seconds: float) -> None:
    with suppress(OSError):  # it is closed
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", port))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for given, taken, wait in ((client, server, seconds), (server, client, 0.0)):
                threading.Thread(target=_pass_on, args=(given, taken, wait), daemon=True).start()


def _pass_on(given: socket.socket, taken: socket.socket, seconds: float) -> None:
    with suppress(OSError):
        while data := given.recv(_BYTES):
            time.sleep(seconds)
            taken.sendall(data)
    for end in (given, taken):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
