"""One work request that is reused for each message: creating SendWR and SGE takes longer than a small READ.

Posting copies both into the device's queue, so they are free as soon as `post_send` returns.
"""

from __future__ import annotations

import ctypes
from typing import Any

from pyslash.rdma.library import Library


class _Entry(ctypes.Structure):
    """`struct ibv_sge`."""

    _fields_ = (("addr", ctypes.c_uint64), ("length", ctypes.c_uint32), ("lkey", ctypes.c_uint32))


def work_request(verbs: Library) -> tuple[Any, Any]:
    """A SendWR of one entry, and that entry: set `addr`, `length`, `lkey` of the one, everything else of the other."""
    entry = verbs.wr.SGE(0, 0, 0)
    request = verbs.wr.SendWR(num_sge=1, sg=[entry])
    try:
        # From version 63 on a request tells where its own entry lies; later ones free what it points to, so stay there.
        return request, _Entry.from_address(request.sg_list)
    except AttributeError:
        # Before, it can only be pointed to another one, which it does not free.
        request.sg_list = entry
        return request, entry
