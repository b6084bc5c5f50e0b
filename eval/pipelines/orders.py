"""The orders that the examples read: known ones, of shops, some of them late."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

START_MS = 1_700_000_000_000
STEP_MS = 3  # of event time from an order to the next
SHOPS = 20
# Around both watermarks of a delay of 10 s and windows of 10 s, so that some orders count and others are dropped.
LATE_SHARE, LATEST_MS = 0.05, 60_000
JITTER_MS = 1_000
END = "(end)"  # the shop of `last`


@dataclass(frozen=True)
class Order:
    """One order; `at_ms` is its event time in milliseconds since 1970."""

    number: int
    at_ms: int
    shop: str
    cents: int

    @property
    def message(self) -> bytes:
        """As the topic has it."""
        at = datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return json.dumps(
            {"number": self.number, "ordered_at": at.replace("+00:00", "Z"), "shop": self.shop, "cents": self.cents}
        ).encode()


def orders(seed: int) -> Iterator[Order]:
    """Orders in the sequence of their arrival, without an end."""
    draw = random.Random(seed)
    for number in count():
        behind = draw.randrange(LATEST_MS) if draw.random() < LATE_SHARE else draw.randrange(JITTER_MS)
        at_ms = START_MS + number * STEP_MS - behind
        yield Order(number, at_ms, f"shop-{draw.randrange(SHOPS):02}", draw.randrange(100, 20_000))


def last(number: int) -> Order:
    """An order an hour after those before it, which closes all of their windows."""
    return Order(number, START_MS + number * STEP_MS + 3_600_000, END, 0)
