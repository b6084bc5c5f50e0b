"""Completions by extended queues, and by plain ones where a driver has no others."""

from __future__ import annotations

import errno
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.rdma.completions import completion_queue


class NotSupportedError(Exception):
    """As PyverbsError."""


class Plain:
    """CQ of pyverbs, as far as it is used."""

    def __init__(self, context: deque[tuple[int, int, int]], entries: int) -> None:
        self.context, self.closed = context, False

    def poll(self, most: int) -> tuple[int, list[Any]]:
        taken = [self.context.popleft() for _ in range(min(most, len(self.context)))]
        return len(taken), [SimpleNamespace(wr_id=id, status=status, vendor_err=code) for id, status, code in taken]

    def close(self) -> None:
        self.closed = True


class Extended:
    """CQEX of pyverbs: a poll that has been started must be ended before the next."""

    def __init__(self, context: deque[tuple[int, int, int]], attributes: Any) -> None:
        self.context, self.closed, self.started = context, False, False

    def start_poll(self, attributes: object) -> int:
        assert not self.started
        if not self.context:
            return errno.ENOENT
        self.started = True
        self.wr_id, self.status, self._code = self.context.popleft()
        return 0

    def read_vendor_err(self) -> int:
        assert self.started
        return self._code

    def end_poll(self) -> None:
        assert self.started
        self.started = False

    def close(self) -> None:
        self.closed = True


def refused(context: object, attributes: object) -> Extended:
    raise NotSupportedError("Failed to create extended CQ")


@pytest.mark.parametrize("extended", [Extended, refused])
def test_completions_come_one_at_a_time(extended: Any) -> None:
    come: deque[tuple[int, int, int]] = deque()
    kinds = SimpleNamespace(CQ=Plain, CQEX=extended, CqInitAttrEx=lambda cqe: cqe, PollCqAttr=object)
    verbs: Any = SimpleNamespace(cq=kinds, pyverbs_error=SimpleNamespace(PyverbsError=NotSupportedError))
    completions = completion_queue(verbs, come, 4)
    assert isinstance(completions.queue, Extended if extended is Extended else Plain)
    assert completions.take() is None
    come.extend([(7, 0, 0), (8, 10, 0x51)])
    assert completions.take() == (7, 0, 0)
    assert completions.take() == (8, 10, 0x51)
    assert completions.take() is None
    completions.close()
    assert completions.queue.closed
