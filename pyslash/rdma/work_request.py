"""Work requests that are reused for each message: creating SendWR and SGE takes longer than a small READ.

They are linked, each to the one that was made before it, so that any number of them is posted by one call: from the
n-th on there are n. The last of them, which was made first, is the one whose completion is signaled. Posting copies
requests and entries into the device's queue, so all of them are free as soon as `post_send` returns.
"""

from __future__ import annotations

import ctypes
from typing import Any

from pyslash.rdma.library import Library


class _Entry(ctypes.Structure):
    """`struct ibv_sge`."""

    _fields_ = (("addr", ctypes.c_uint64), ("length", ctypes.c_uint32), ("lkey", ctypes.c_uint32))


class WorkRequests:
    """Requests of one operation, the last one first: `pairs[n]` is (SendWR, its entry), and leads to `pairs[n - 1]`.

    To be set before each use: `wr_id` and `set_wr_rdma` of the one, `addr`, `length` and `lkey` of the other.
    """

    def __init__(self, verbs: Library, operation: str) -> None:
        """One request."""
        self._verbs, self._opcode = verbs, verbs.constant(operation)
        self.pairs: list[tuple[Any, Any]] = []
        self.grow(1)
        self.pairs[0][0].send_flags = verbs.constant("IBV_SEND_SIGNALED")

    def grow(self, count: int) -> None:
        """To at least so many."""
        while len(self.pairs) < count:
            request, entry = work_request(self._verbs)
            request.opcode = self._opcode
            request.send_flags = 0
            if self.pairs:
                request.next_wr = self.pairs[-1][0]
            self.pairs.append((request, entry))


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
