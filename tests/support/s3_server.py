"""An S3 server on loopback, which pyarrow and every child process find by the environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from eval import object_store


@contextmanager
def s3_server(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The `s3a://` location of an empty bucket, as Spark writes it."""
    with object_store.s3_server() as port:
        for name, value in object_store.environment(port).items():
            patch.setenv(name, value)
        yield object_store.make_bucket()
