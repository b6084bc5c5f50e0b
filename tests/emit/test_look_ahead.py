"""A thread that makes items ahead: the same items, a bound, errors in their place."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyslash.emit.look_ahead import look_ahead
from pyslash.errors import StaleIncarnationError


@given(st.lists(st.integers(1, 9)), st.integers(1, 30))
def test_the_same_items_in_the_same_order(items: list[int], most: int) -> None:
    assert list(look_ahead(iter(items), int, most)) == items


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 30))
def test_an_error_comes_after_the_items_before_it(items: list[int], most: int) -> None:
    def failing() -> Iterator[int]:
        yield from items
        raise StaleIncarnationError("the peer is gone")

    got: list[int] = []
    with pytest.raises(StaleIncarnationError, match="the peer is gone"):
        got.extend(look_ahead(failing(), int, most))
    assert got == items


def test_no_item_is_begun_while_enough_wait() -> None:
    begun: list[int] = []
    reached = threading.Semaphore(0)

    def items() -> Iterator[int]:
        for item in range(10):
            begun.append(item)
            reached.release()
            yield item

    ahead = look_ahead(items(), lambda item: 4, 8)
    assert next(ahead) == 0
    for _ in range(3):
        assert reached.acquire(timeout=20)
    # 1 and 2 wait with 8 bytes between them.
    assert not reached.acquire(timeout=0.05)
    assert begun == [0, 1, 2]
    assert list(ahead) == list(range(1, 10))


def test_the_next_item_is_made_while_one_is_used() -> None:
    made = threading.Event()

    def items() -> Iterator[int]:
        yield 0
        made.set()
        yield 1

    ahead = look_ahead(items(), int, 1)
    assert next(ahead) == 0
    assert made.wait(20)
    assert list(ahead) == [1]


def test_the_thread_ends_when_the_caller_stops_early() -> None:
    ended = threading.Event()

    def items() -> Generator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    source = items()
    ahead = look_ahead(source, int, 3)
    assert isinstance(ahead, Generator)
    assert next(ahead) == 1
    ahead.close()
    for thread in threading.enumerate():
        if thread.name == "pyslash look-ahead":
            thread.join(20)
            assert not thread.is_alive()
    source.close()
    assert ended.is_set()
