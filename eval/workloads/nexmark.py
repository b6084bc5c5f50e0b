"""NEXMark's query 7, the highest bid, as the RDMA literature runs it: a window of a minute, by a few keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from eval.workloads.base import Workload, timestamps
from eval.workloads.query import Aggregation, Query

PERSONS = 100_000


@dataclass(frozen=True)
class HighestBid(Workload):
    """Bids of 32 bytes on `auctions` auctions; prices are log-normal, as NEXMark's are skewed."""

    name: ClassVar[str] = "nb7"
    event_time: ClassVar[str] = "date_time"

    auctions: int = 10

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns auction, bidder, price (bigint) and date_time."""
        size = len(event_time)
        return pa.table(
            {
                "auction": generator.integers(0, self.auctions, size),
                "bidder": generator.integers(0, PERSONS, size),
                "price": (100 * generator.lognormal(5.0, 1.5, size)).astype(np.int64),
                "date_time": timestamps(event_time),
            }
        )

    @property
    def statement(self) -> Query:
        """`max(price)` by auction, 60 s tumbling."""
        highest = Aggregation("highest", "max", "price")
        return Query(time="date_time", keys=("auction",), aggregations=(highest,), window_s=60, slide_s=60)
