"""How much memory requests may take, over all connections, from before they are read until their callers are answered.

A body of JSON takes some twenty times its bytes once it is parsed. So what a right has no use for is not read at all,
and what is read counts against a budget of that right: who may read takes nothing from the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyslash.errors import AgentBusyError, InvalidRequestError
from pyslash.protocol.bounds import MAX_RANGES_BYTES
from pyslash.protocol.token import Right
from pyslash.protocol.wire import MAX_BODY_BYTES

_FREE_BYTES = 4096
"""A request of so few bytes, as most are, takes less than the thread that answers it, and does not count."""
_SECONDS = 10.0


def most_bytes(right: Right) -> int:
    """The longest request that somebody with this right has a use for."""
    return MAX_RANGES_BYTES if right is Right.READ else MAX_BODY_BYTES


class Hold:
    """What one request has of a budget, until `release`, which may be called again."""

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget, self._size = budget, size

    def release(self) -> None:
        """Gives it back."""
        size, self._size = self._size, 0
        self._budget.give_back(size)


class Budget:
    """Bytes of requests of one right that an agent holds at a time."""

    def __init__(self, right: Right, total_bytes: int = MAX_BODY_BYTES) -> None:
        """Nothing is held."""
        self._most, self._right, self._left = most_bytes(right), right, total_bytes
        self._changed = threading.Condition()

    @contextmanager
    def held(self, size: int, seconds: float = _SECONDS) -> Iterator[Hold]:
        """Room for a request of so many bytes, as soon as there is, until the context ends or `Hold.release`.

        Raises:
            InvalidRequestError: nobody with this right has a use for so long a request.
            AgentBusyError: there was no room within the time.
        """
        if size > self._most:
            name = self._right.name.lower()
            raise InvalidRequestError(f"a request of {size} bytes; with a token to {name} it has at most {self._most}")
        counted = size if size > _FREE_BYTES else 0
        with self._changed:
            if not self._changed.wait_for(lambda: counted <= self._left, seconds):
                raise AgentBusyError(
                    f"no room for a request of {size} bytes within {seconds:g} s, beside all others; try again"
                )
            self._left -= counted
        hold = Hold(self, counted)
        try:
            yield hold
        finally:
            hold.release()

    def give_back(self, size: int) -> None:
        """For `Hold`."""
        if size:
            with self._changed:
                self._left += size
                self._changed.notify_all()
