"""What the examples have to give, by plain Python: the orders of each micro-batch, under Spark's rules for watermarks.

The checkpoint's offset log says which orders a micro-batch had. Nothing else of Spark's, and nothing of pyslash's,
takes part in the answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval.pipelines.orders import Order

WINDOW_MS = DELAY_MS = 10_000

Row = tuple[int, str, int, int]
"""A window's start in milliseconds, a shop, the number of its orders, their cents."""


class ReplayError(Exception):
    """The offset log is not that of a query over these orders."""


@dataclass
class Expected:
    """`appended`: each window once it is closed. `updated`: what each micro-batch has changed. `latest`: by the end."""

    appended: Counter[Row] = field(default_factory=Counter)
    updated: Counter[Row] = field(default_factory=Counter)
    latest: Counter[Row] = field(default_factory=Counter)
    batches: int = 0
    orders: int = 0
    dropped: int = 0


def replay(checkpoint: Path, partitions: Sequence[Sequence[Order]]) -> Expected:
    """What a query has to give for the micro-batches of its checkpoint.

    Args:
        checkpoint: of the query, with its whole offset log.
        partitions: the orders of each partition of the topic, in their sequence there.

    Raises:
        ReplayError: the log has another topic, lacks an entry, or has another watermark.
    """
    expected, totals, is_open = Expected(), {}, set()
    watermark = before = latest_ms = 0
    for logged_ms, batch in _batches(checkpoint, partitions):
        # A micro-batch drops rows by the watermark that the one before it has evicted by.
        before, watermark = watermark, max(watermark, latest_ms - DELAY_MS)
        if logged_ms != watermark:
            raise ReplayError(f"Spark's watermark is {logged_ms}, that of the orders {watermark}")
        expected.batches += 1
        touched = set()
        for order in batch:
            group = (order.at_ms - order.at_ms % WINDOW_MS, order.shop)
            latest_ms = max(latest_ms, order.at_ms)
            expected.orders += 1
            if group[0] + WINDOW_MS <= before:
                expected.dropped += 1
                continue
            count, cents = totals.get(group, (0, 0))
            totals[group] = (count + 1, cents + order.cents)
            touched.add(group)
        expected.updated.update((*group, *totals[group]) for group in touched)
        is_open |= touched
        closed = {group for group in is_open if group[0] + WINDOW_MS <= watermark}
        expected.appended.update((*group, *totals[group]) for group in closed)
        is_open -= closed
    expected.latest.update((*group, *total) for group, total in totals.items())
    return expected


def _batches(checkpoint: Path, partitions: Sequence[Sequence[Order]]) -> Iterator[tuple[int, list[Order]]]:
    """The watermark that Spark has logged for each micro-batch, and its orders."""
    begin = [0] * len(partitions)
    logged = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    if logged != list(range(len(logged))):
        raise ReplayError(f"the offset log has the entries {logged}")
    for number in logged:
        _, metadata, source = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        (offsets,) = json.loads(source).values()
        end = [offsets[str(partition)] for partition in range(len(partitions))]
        batch = [order for orders, a, b in zip(partitions, begin, end, strict=True) for order in orders[a:b]]
        yield json.loads(metadata)["batchWatermarkMs"], batch
        begin = end
