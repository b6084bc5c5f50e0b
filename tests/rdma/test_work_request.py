"""The one work request of a connection, in the installed pyverbs and in the form of later ones."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.errors import TransportUnavailableError
from pyslash.rdma.library import library
from pyslash.rdma.work_request import work_request


def installed() -> Any:
    try:
        return library()
    except TransportUnavailableError as error:
        pytest.skip(str(error))


def test_the_installed_library_s_request_can_be_filled_in_again() -> None:
    verbs = installed()
    request, entry = work_request(verbs)
    request.opcode = verbs.constant("IBV_WR_RDMA_READ")
    for number in (1, (1 << 63) + 1):
        entry.addr, entry.length, entry.lkey = number, 1 << 20, 0xFFFFFFFF
        request.wr_id, request.send_flags = number, verbs.constant("IBV_SEND_SIGNALED")
        request.set_wr_rdma(0xFFFFFFFE, number)
        assert (entry.addr, entry.length, entry.lkey) == (number, 1 << 20, 0xFFFFFFFF)
        assert (request.wr_id, request.num_sge) == (number, 1)
        assert int(request.opcode) == verbs.constant("IBV_WR_RDMA_READ")


class Request:
    """A SendWR from version 63 on: it tells the address of its own copy of the entry."""

    def __init__(self, num_sge: int, sg: list[Any]) -> None:
        self.own = (ctypes.c_uint64 * 2)()

    @property
    def sg_list(self) -> int:
        return ctypes.addressof(self.own)


def test_a_later_library_s_entry_is_written_in_place() -> None:
    verbs: Any = SimpleNamespace(wr=SimpleNamespace(SGE=lambda *_: object(), SendWR=Request))
    request, entry = work_request(verbs)
    entry.addr, entry.length, entry.lkey = 1 << 60, 3, 5
    assert list(request.own) == [1 << 60, 5 << 32 | 3]
