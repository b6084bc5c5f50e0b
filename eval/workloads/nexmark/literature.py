"""NEXMark's queries 7, the highest bid, and 11, a bidder's sessions, as the RDMA literature runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from eval.workloads.base import Workload, timestamps
from eval.workloads.query import Aggregation, Query

PERSONS = 100_000


def bids(generator: np.random.Generator, event_time: np.ndarray, auctions: int, bidders: int) -> pa.Table:
    """Columns auction, bidder, price (bigint) and date_time, a row for each of these times."""
    size = len(event_time)
    return pa.table(
        {
            "auction": generator.integers(0, auctions, size),
            "bidder": generator.integers(0, bidders, size),
            "price": (100 * generator.lognormal(5.0, 1.5, size)).astype(np.int64),
            "date_time": timestamps(event_time),
        }
    )


@dataclass(frozen=True)
class HighestBid(Workload):
    """Bids of 32 bytes on `auctions` auctions; prices are log-normal, as NEXMark's are skewed."""

    name: ClassVar[str] = "nb7"
    event_time: ClassVar[str] = "date_time"

    auctions: int = 10

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns auction, bidder, price (bigint) and date_time."""
        return bids(generator, event_time, self.auctions, PERSONS)

    @property
    def statement(self) -> Query:
        """`max(price)` by auction, 60 s tumbling."""
        highest = Aggregation("highest", "max", "price")
        return Query(time="date_time", keys=("auction",), aggregations=(highest,), window_s=60, slide_s=60)


@dataclass(frozen=True)
class BidderSessions(Workload):
    """Bids of `bidders` persons, who pause now and then for longer than the gap: at a bid a second, every 20th time."""

    name: ClassVar[str] = "nb11"
    event_time: ClassVar[str] = "date_time"

    bidders: int = PERSONS
    gap_s: int = 3

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns auction, bidder, price (bigint) and date_time."""
        return bids(generator, event_time, 10, self.bidders)

    @property
    def statement(self) -> Query:
        """`count(*)`, `sum(price)` and `max(price)` by bidder and session."""
        calls = (
            Aggregation("bids", "count", "*"),
            Aggregation("spent", "sum", "price"),
            Aggregation("most", "max", "price"),
        )
        return Query(time="date_time", keys=("bidder",), aggregations=calls, gap_s=self.gap_s)
