"""NEXMark's queries 7, 8 and 11 as the RDMA literature runs them: highest bids, new sellers, a bidder's sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval.workloads.base import Workload, timestamps
from eval.workloads.query import Aggregation, Pairs, Query

PERSONS = 100_000
ACTIVE = 1_000  # persons who may open an auction at a time


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


@dataclass(frozen=True)
class NewSellers(Workload):
    """Persons and what they sell within a window of `window_h` hours: of four rows one is a person, three are auctions.

    An auction is of one of the last `ACTIVE` persons, so that most find theirs in their own window.
    """

    name: ClassVar[str] = "nb8"
    event_time: ClassVar[str] = "date_time"
    pace: ClassVar[float | None] = None

    span_s: float = 86_400.0
    window_h: float = 12.0

    @property
    def reads(self) -> int:
        """Once for each side."""
        return 2

    @property
    def is_judged_by_stream(self) -> bool:
        """A row comes in the micro-batch in which the later one of its two comes."""
        return True

    def rows_from(self, begin: int, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns date_time, is_auction, person (who registers or sells), item (of an auction, else null), name."""
        number = np.arange(begin, begin + len(event_time))
        newest, is_auction = number // 4, number % 4 > 0
        seller = newest - generator.integers(0, np.minimum(newest + 1, ACTIVE))
        person = np.where(is_auction, seller, newest)
        return pa.table(
            {
                "date_time": timestamps(event_time),
                "is_auction": pa.array(is_auction),
                "person": pa.array(person),
                "item": pa.array(number, mask=~is_auction),
                "name": pc.binary_join_element_wise("person", pa.array(person).cast(pa.string()), "-"),
            }
        )

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """The first rows."""
        return self.rows_from(0, generator, event_time)

    @property
    def statement(self) -> Query:
        """A person's name with each item."""
        window_s = round(self.window_h * 3600)
        pairs = Pairs(right="is_auction", on="person", within_s=window_s, by_window=True)
        return Query(
            time="date_time", select=("person", "name", "r_item"), window_s=window_s, slide_s=window_s, pairs=pairs
        )
