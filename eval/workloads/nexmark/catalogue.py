"""What there is to say of each of NEXMark's queries, beside its PySpark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eval.workloads.nexmark import queries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Described:
    """A query: its function, output mode, how often it reads the events, and what was `changed` in the published SQL.

    `identity`: columns that tell the result's rows apart; none: the query has no state. `timed`: it needs a watermark.
    """

    function: Callable[[queries.Events], DataFrame]
    does: str
    identity: tuple[str, ...] = ()
    mode: str = "append"
    reads: int = 1
    timed: bool = False
    changed: str = ""

    @property
    def has_state(self) -> bool:
        """Whether the query has any."""
        return bool(self.identity)


_WINDOW = ("window_start", "window_end")
_BID = ("auction", "bidder", "price", "bid_date_time")
_APPROXIMATE = "`approx_count_distinct` for `count(DISTINCT)`"
QUERIES = {
    0: Described(queries.q0, "bids as they are"),
    1: Described(queries.q1, "prices in another currency"),
    2: Described(queries.q2, "bids on every 123rd auction"),
    3: Described(queries.q3, "auctions of a category, joined with sellers of three states", ("id",), reads=2),
    5: Described(
        queries.q5,
        "auctions with most bids in 10 s, every 2 s: counts, their maximum, a join of both",
        (*_WINDOW, "auction"),
        reads=2,
        timed=True,
    ),
    7: Described(
        queries.q7,
        "highest bids of 10 s: the maximum, joined with the bids",
        (*_WINDOW, "auction", "bidder"),
        reads=2,
        timed=True,
        changed="a bid joins the maximum of its own window; published, one at a window's very end joins the next, too",
    ),
    8: Described(
        queries.q8,
        "persons who register and open an auction within 10 s: distinct ones of both, and a join",
        (*_WINDOW, "id"),
        reads=2,
        timed=True,
    ),
    9: Described(
        queries.q9,
        "the winning bid of each auction: an interval join, then the highest",
        ("id",),
        reads=2,
        timed=True,
        changed="`max_by` for `ROW_NUMBER() ... = 1`; no auction is longer than 10 s, and then its winner is final",
    ),
    10: Described(
        queries.q10,
        "bids with the day and the minute of their log file",
        changed="the sink is that of all queries, and no partitioned files",
    ),
    11: Described(queries.q11, "bids by bidder and session of 10 s", (*_WINDOW, "bidder"), timed=True),
    13: Described(queries.q13, "bids joined with a static table"),
    14: Described(
        queries.q14,
        "bids of some prices, with computed columns",
        changed="`length` and `replace` for the function that counts characters",
    ),
    15: Described(queries.q15, "12 figures of a day's bids", ("day",), mode="update", changed=_APPROXIMATE),
    16: Described(
        queries.q16, "13 figures by channel and day", ("channel", "day"), mode="update", changed=_APPROXIMATE
    ),
    17: Described(queries.q17, "8 figures by auction and day", ("auction", "day"), mode="update"),
    18: Described(
        queries.q18,
        "the last bid by bidder and auction",
        ("bidder", "auction"),
        mode="update",
        changed="`max_by` for `ROW_NUMBER() ... = 1`",
    ),
    20: Described(queries.q20, "bids joined with auctions of a category", _BID, reads=2),
    21: Described(queries.q21, "bids with the number in their channel's URL"),
    22: Described(queries.q22, "bids with the directories of their URL"),
    23: Described(
        queries.q23,
        "bids joined with persons and the auctions that these have opened",
        ("bidder", "price", "bid_extra", "auction_extra"),
        reads=3,
    ),
}
# Published, and not here.
LEFT_OUT = {
    4: "an average of maxima, both without a window: Spark has such chains in append mode alone",
    6: "an average over the last ten rows: no such window over a stream in Spark",
    12: "windows of processing time: which rows are in one depends on the clock, so no two runs have equal rows",
    19: "the ten highest bids by auction: no `ROW_NUMBER` over a stream in Spark",
}
