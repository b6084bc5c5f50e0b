"""The agents of `tests/agent`, for whoever reads from them or writes to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyslash.protocol.token import query_token
from pyslash.transport import Transports
from tests.agent.blocks import QUERY
from tests.agent.conftest import agent, client, jvm, request_agent, runtime_root, secret

__all__ = ["agent", "client", "jvm", "request_agent", "runtime_root", "secret", "transports"]


@pytest.fixture
def transports(secret: bytes) -> Iterator[Transports]:
    """Of one reader or writer."""
    made = Transports(QUERY, query_token(secret, QUERY), timeout_seconds=20)
    yield made
    made.close()
