"""A completion queue that is polled for one completion at a time.

pyverbs's `CQ.poll` creates an object with a logger for each completion, which takes about as long as a small READ. An
extended queue returns number and status alone. Devices whose driver has no extended queues are polled by `CQ.poll`.
"""

from __future__ import annotations

from typing import Any, Protocol

from pyslash.rdma.library import Library

Completion = tuple[int, int, int]
"""Number of the work request, status, and the vendor's code if the status is not success."""


class Completions(Protocol):
    """`queue` is the pyverbs object that a queue pair is made with."""

    queue: Any

    def take(self) -> Completion | None:
        """The next completion, if there is one."""
        ...

    def close(self) -> None:
        """Destroys the queue; its queue pairs have been closed before."""
        ...


def completion_queue(verbs: Library, context: Any, entries: int) -> Completions:
    """A new queue for that many completions.

    Raises:
        PyverbsError: the device has none left, or no memory.
    """
    try:
        return ExtendedCompletions(verbs, context, entries)
    except verbs.pyverbs_error.PyverbsError:
        return PlainCompletions(verbs, context, entries)


class ExtendedCompletions:
    """By `ibv_start_poll` and its companions."""

    def __init__(self, verbs: Library, context: Any, entries: int) -> None:
        """Raises PyverbsError where the driver has no extended queues."""
        self.queue = verbs.cq.CQEX(context, verbs.cq.CqInitAttrEx(cqe=entries))
        self._attributes = verbs.cq.PollCqAttr()

    def take(self) -> Completion | None:
        """See `Completions.take`."""
        queue = self.queue
        if queue.start_poll(self._attributes):
            return None
        status = queue.status
        completion = (queue.wr_id, status, queue.read_vendor_err() if status else 0)
        queue.end_poll()
        return completion

    def close(self) -> None:
        """See `Completions.close`."""
        self.queue.close()


class PlainCompletions:
    """By `ibv_poll_cq`."""

    def __init__(self, verbs: Library, context: Any, entries: int) -> None:
        """Every device has these."""
        self.queue = verbs.cq.CQ(context, entries)

    def take(self) -> Completion | None:
        """See `Completions.take`."""
        count, completions = self.queue.poll(1)
        if not count:
            return None
        (one,) = completions
        return one.wr_id, one.status, one.vendor_err

    def close(self) -> None:
        """See `Completions.close`."""
        self.queue.close()
