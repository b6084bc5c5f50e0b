"""Items that a thread makes ahead, while the ones before them are used."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


def look_ahead(items: Iterator[Item], size: Callable[[Item], int], most_bytes: int) -> Iterator[Item]:
    """The same items in the same order; the next one is begun while those that wait have less than `most_bytes`.

    An error of `items` is raised here, after the items before it. If the caller stops early, the thread ends with its
    current item. Waiting has no deadline: making an item must have one.
    """
    ahead = _Ahead(items, size, most_bytes)
    threading.Thread(target=ahead.make, name="pyslash look-ahead", daemon=True).start()
    try:
        while (item := ahead.take()) is not None:
            yield item
            del item  # else it would be kept until the next one is there
    finally:
        ahead.end()


class _Ahead(Generic[Item]):
    def __init__(self, items: Iterator[Item], size: Callable[[Item], int], most_bytes: int) -> None:
        self._items, self._size, self._most = items, size, most_bytes
        self._changed = threading.Condition()
        self._waiting: deque[Item] = deque()
        self._bytes = 0
        self._failure: BaseException | None = None
        self._over = False

    def make(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._waiting.append(item)
                    self._bytes += self._size(item)
                    del item
                    self._changed.notify()
                    self._changed.wait_for(lambda: self._over or self._bytes < self._most)
                    if self._over:
                        return
        except BaseException as error:
            self._failure = error
        finally:
            self.end()

    def take(self) -> Item | None:
        """None after the last one."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._over)
            if not self._waiting:
                if self._failure is not None:
                    raise self._failure
                return None
            item = self._waiting.popleft()
            self._bytes -= self._size(item)
            self._changed.notify()
            return item

    def end(self) -> None:
        """No further item is begun."""
        with self._changed:
            self._over = True
            self._changed.notify()
