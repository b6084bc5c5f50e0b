"""An S3 server on loopback, moto's, which pyarrow and every child process find by the environment."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "slash-tests"


@contextmanager
def s3_server(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The `s3a://` location of an empty bucket, as Spark writes it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs every request otherwise
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    for name, value in settings.items():
        patch.setenv(name, value)
    try:
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"s3a://{BUCKET}"
    finally:
        server.stop()
