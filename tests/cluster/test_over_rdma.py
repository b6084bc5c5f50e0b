"""What the run over RDMA is judged by: a byte that came by TCP, or a host that was not read, fails it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.over_rdma import by_verbs, equal

ONE, TWO, THREE = (f"10.77.0.{host}" for host in (1, 2, 3))


def found() -> dict[str, Any]:
    """Of three hosts."""
    of_peers = {
        host: {peer: {"verbs": 100} for peer in (ONE, TWO, THREE) if peer != host} for host in (ONE, TWO, THREE)
    }
    return {"rows": 5, "expected": 5, "differences": [], "bytes_read": {"shm": 300, "verbs": 600}, "of_peers": of_peers}


def test_every_host_that_is_read_by_every_other_one_passes() -> None:
    assert by_verbs(found(), 3)
    assert equal(found())


@pytest.mark.parametrize("brought", [{"tcp": 100}, {"tcp": 1, "verbs": 100}, {"verbs": 0}, {}])
def test_a_peer_that_is_not_read_by_verbs_alone_fails(brought: dict[str, int]) -> None:
    fell_back = found()
    fell_back["of_peers"][TWO][THREE] = brought
    assert not by_verbs(fell_back, 3)


def test_a_peer_or_a_host_that_is_missing_fails() -> None:
    unread = found()
    del unread["of_peers"][TWO][THREE]
    assert not by_verbs(unread, 3)
    assert not by_verbs(found(), 4)


@pytest.mark.parametrize("read", [{"shm": 300, "tcp": 1, "verbs": 600}, {"verbs": 600}, {"shm": 300, "verbs": 700}])
def test_what_tasks_count_has_to_be_what_agents_have_brought(read: dict[str, int]) -> None:
    assert not by_verbs(found() | {"bytes_read": read}, 3)


@pytest.mark.parametrize("rows", [{"rows": 4}, {"differences": ["+ row"]}, {"rows": 0, "expected": 0}])
def test_other_rows_than_spark_s_fail(rows: dict[str, Any]) -> None:
    assert not equal(found() | rows)
