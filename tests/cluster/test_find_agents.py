"""At which address other hosts reach an executor's agent."""

from __future__ import annotations

import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.cluster.find_agents import executor_host, executors
from pyslash.protocol.client import AgentClient
from pyslash.protocol.token import query_token
from tests.agent.blocks import QUERY
from tests.transport.in_process import serving


@pytest.mark.parametrize(
    ("driver", "host"), [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("::1", "::1"), (None, "127.0.0.1")]
)
def test_an_executor_is_reached_by_the_way_to_its_driver(
    monkeypatch: pytest.MonkeyPatch, driver: str | None, host: str
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert executor_host(driver) == host


@pytest.mark.parametrize("configured", ["::1", "[::1]"])
def test_an_address_that_is_configured_goes_first(monkeypatch: pytest.MonkeyPatch, configured: str) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", configured)
    assert executor_host("127.0.0.1") == "::1"


def test_an_agent_is_called_at_an_ipv6_address(tmp_path: Path) -> None:
    secret = secrets.token_bytes(32)
    with (
        serving(secret, tmp_path, host="::1") as agent,
        AgentClient(agent.descriptor, QUERY, query_token(secret, QUERY), via="tcp") as client,
    ):
        assert client.describe().incarnation.hex() == agent.descriptor.incarnation
        assert f"[::1]:{agent.descriptor.port}" in str(agent.descriptor)


def test_an_application_that_has_stopped_has_no_executors() -> None:
    """A query that was stopped in an update may be let go of after it."""
    stopped: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    assert executors(stopped) == 0
