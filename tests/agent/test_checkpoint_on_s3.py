"""Agents write their blocks to S3 and restore them from there: they inherit where it is, as executors would."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from pyslash.agent.process.launch import AgentRequest, ensure
from pyslash.errors import CheckpointError, CorruptBlockError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.messages import Checkpoint, Restore
from pyslash.protocol.token import query_token
from tests.agent.blocks import PLAN, QUERY, merged, write
from tests.support.s3_server import s3_server


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3_server(monkeypatch) as bucket:
        yield f"{bucket}/query/slash/blocks"


def test_a_stored_epoch_comes_back_in_another_agent(
    folder: str, secret: bytes, request_agent: Callable[..., AgentRequest]
) -> None:
    token = query_token(secret, QUERY)
    holder = ensure(request_agent())
    with AgentClient(holder, QUERY, token, timeout_seconds=20, secret=secret) as client:
        offset = write(holder, 0, [0, 10], keys=range(9000)).arena_offset
        written = client.checkpoint(Checkpoint(0, [offset], PLAN, 1, folder, "0.arrow", False), 30)
        expected = merged(holder, client.commit(0, [offset], PLAN, 1).blocks, [0, 10])
    jvm = subprocess.Popen(["sleep", "600"])
    try:
        other = ensure(request_agent(jvm_pid=jvm.pid))
        with AgentClient(other, QUERY, token, timeout_seconds=20, secret=secret) as client:
            with pytest.raises(CorruptBlockError, match="its manifest says"):
                client.restore(Restore(PLAN, 2, folder, [["0.arrow", written["bytes"], written["crc"] ^ 1]]), 30)
            with pytest.raises(CheckpointError, match="cannot be read"):
                client.restore(Restore(PLAN, 2, folder, [["1.arrow", 1, 1]]), 30)
            reply = client.restore(Restore(PLAN, 2, folder, [["0.arrow", written["bytes"], written["crc"]]]), 30)
            assert merged(other, reply.blocks, [0, 10]) == expected
    finally:
        jvm.kill()
        jvm.wait()
