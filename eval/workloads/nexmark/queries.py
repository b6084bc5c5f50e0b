"""NEXMark's queries in PySpark: ordinary functions over streams of persons, auctions and bids.

`QUERIES` says of each what a harness has to know, and what is unlike the published SQL. Nothing here knows of pyslash.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eval.workloads.nexmark.events import AUCTION, BID, PERSON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WATERMARK = "4 seconds"  # as published
SIDE_INPUT = "side_input.parquet"
SIDE_INPUT_ROWS = 10_000
LONGEST_AUCTION_S = 10  # many times what the published configuration comes to
PERSON_COLUMNS = ("id", "name", "email_address", "credit_card", "city", "state", "date_time", "extra")
AUCTION_COLUMNS = (
    *(
        "id",
        "item_name",
        "description",
        "initial_bid",
        "reserve",
        "date_time",
        "expires",
        "seller",
        "category",
        "extra",
    ),
)
BID_COLUMNS = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
_DAY = "date_format(date_time, 'yyyy-MM-dd') AS day"
_RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


@dataclass(frozen=True)
class Events:
    """One stream of events, as views of its three kinds, and what stands beside it."""

    spark: SparkSession
    rows: DataFrame
    folder: Path

    @property
    def person(self) -> DataFrame:
        """Those who register."""
        return self.rows.where(f"event_type = {PERSON}").select(*PERSON_COLUMNS)

    @property
    def auction(self) -> DataFrame:
        """Auctions that are opened."""
        return self.rows.where(f"event_type = {AUCTION}").select(*AUCTION_COLUMNS)

    @property
    def bid(self) -> DataFrame:
        """Bids."""
        return self.rows.where(f"event_type = {BID}").select(*BID_COLUMNS)

    @property
    def side_input(self) -> DataFrame:
        """A static table: key, value."""
        return self.spark.read.parquet(str(self.folder / SIDE_INPUT))


def q0(events: Events) -> DataFrame:
    """Pass through."""
    return events.bid.select("auction", "bidder", "price", "date_time", "extra")


def q1(events: Events) -> DataFrame:
    """Prices in another currency."""
    euros = "CAST(0.908 * price AS DECIMAL(23, 3)) AS price"
    return events.bid.selectExpr("auction", "bidder", euros, "date_time", "extra")


def q2(events: Events) -> DataFrame:
    """Bids on some auctions."""
    return events.bid.where("auction % 123 = 0").select("auction", "price")


def q3(events: Events) -> DataFrame:
    """Who sells in some states, in one category."""
    auction, person = events.auction.alias("a"), events.person.alias("p")
    sells = auction.where("category = 10").join(person.where("state IN ('OR', 'ID', 'CA')"), _on("a.seller = p.id"))
    return sells.selectExpr("p.name", "p.city", "p.state", "a.id")


def q5(events: Events) -> DataFrame:
    """The auctions with most bids in the last ten seconds, every two seconds."""
    from pyspark.sql import functions as F

    hopping = F.window("date_time", "10 seconds", "2 seconds").alias("window")
    counted = events.bid.groupBy(hopping, "auction").agg(F.count("*").alias("num"))
    # Of overlapping windows, too, each ends in two seconds of its own.
    ending = F.window(F.window_time("window"), "2 seconds").alias("ending")
    bids = counted.select(ending, "auction", "num").alias("b")
    most = counted.groupBy(ending).agg(F.max("num").alias("most")).alias("m")
    hot = bids.join(most, _on("b.ending = m.ending AND num >= most"))
    start = "b.ending.end - INTERVAL 10 SECONDS AS window_start"
    return hot.selectExpr(start, "b.ending.end AS window_end", "auction", "num")


def q7(events: Events) -> DataFrame:
    """The highest bids of every ten seconds."""
    from pyspark.sql import functions as F

    window = F.window("date_time", "10 seconds").alias("window")
    highest = events.bid.groupBy(window).agg(F.max("price").alias("most")).alias("h")
    bid = events.bid.select(window, "auction", "bidder", "price", F.expr("unix_micros(date_time) AS us"), "extra")
    same = bid.alias("b").join(highest, _on("b.window = h.window AND price = most"))
    return same.selectExpr("b.window", "auction", "bidder", "price", "timestamp_micros(us) AS date_time", "extra")


def q8(events: Events) -> DataFrame:
    """Who registered and opened an auction within ten seconds."""
    from pyspark.sql import functions as F

    window = F.window("date_time", "10 seconds").alias("window")
    person = events.person.groupBy(window, "id", "name").agg(F.count("*")).select("window", "id", "name").alias("p")
    seller = events.auction.groupBy(window, "seller").agg(F.count("*")).select("window", "seller").alias("a")
    return person.join(seller, _on("id = seller AND p.window = a.window")).select("p.window", "id", "name")


def q9(events: Events) -> DataFrame:
    """The winning bid of each auction: the highest, and of several the first."""
    from pyspark.sql import functions as F

    auction, bid = events.auction.alias("a"), events.bid.alias("b")
    while_open = "b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires"
    # No auction is open for longer; Spark keeps its rows no longer, and waits no longer for its bids.
    within = f"b.date_time <= a.date_time + INTERVAL {LONGEST_AUCTION_S} SECONDS"
    made = bid.join(auction, _on(f"{while_open} AND {within}"))
    known = ("item_name", "description", "initial_bid", "reserve", "expires", "seller", "category", "auction_extra")
    won = ("bidder", "price", "bid_us", "bid_extra")
    bids = made.selectExpr(
        *("a.date_time", "a.id", *known[:-1], "a.extra AS auction_extra"),
        *("bidder", "price", "unix_micros(b.date_time) AS bid_us", "b.extra AS bid_extra"),
        # One number that orders the bids on an auction by price, then back in time.
        f"price * {LONGEST_AUCTION_S * 1_000_000} - (unix_micros(b.date_time) - unix_micros(a.date_time)) AS rank",
    )
    # An auction has one time, and so one window.
    best = bids.groupBy(F.window("date_time", "1 second"), "id").agg(
        *(F.first(column).alias(column) for column in known),
        *(F.max_by(column, "rank").alias(column) for column in won),
    )
    time = "timestamp_micros(bid_us) AS bid_date_time"
    return best.selectExpr("window", "id", *known, "bidder", "price", time, "bid_extra")


def q10(events: Events) -> DataFrame:
    """Bids with the day and the minute that their log file is of."""
    day, minute = (f"date_format(date_time, '{form}')" for form in ("yyyy-MM-dd", "HH:mm"))
    return events.bid.selectExpr("auction", "bidder", "price", "date_time", "extra", f"{day} AS dt", f"{minute} AS hm")


def q11(events: Events) -> DataFrame:
    """Bids of a bidder who does not pause for ten seconds."""
    from pyspark.sql import functions as F

    session = F.session_window("date_time", "10 seconds").alias("window")
    return events.bid.groupBy("bidder", session).agg(F.count("*").alias("bid_count"))


def q13(events: Events) -> DataFrame:
    """Bids with what a static table says of them."""
    joined = events.bid.join(events.side_input, _on("auction % 10000 = key"))
    return joined.select("auction", "bidder", "price", "date_time", "value")


def q14(events: Events) -> DataFrame:
    """Bids of some prices, with the time of day in words."""
    hour = "hour(date_time)"
    time = (
        f"CASE WHEN {hour} >= 8 AND {hour} <= 18 THEN 'dayTime' "
        f"WHEN {hour} <= 6 OR {hour} >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type"
    )
    counted = "length(extra) - length(replace(extra, 'c', '')) AS c_counts"
    some = events.bid.where("0.908 * price > 1000000 AND 0.908 * price < 50000000")
    euros = "CAST(0.908 * price AS DECIMAL(23, 3)) AS price"
    return some.selectExpr("auction", "bidder", euros, time, "date_time", "extra", counted)


def q15(events: Events) -> DataFrame:
    """Bids, bidders and auctions of a day, by rank of price."""
    return events.bid.selectExpr("*", _DAY).groupBy("day").agg(*_counted())


def q16(events: Events) -> DataFrame:
    """The same by channel."""
    from pyspark.sql import functions as F

    bids = events.bid.selectExpr("*", _DAY, "date_format(date_time, 'HH:mm') AS minute_of_day")
    return bids.groupBy("channel", "day").agg(F.max("minute_of_day").alias("minute"), *_counted())


def q17(events: Events) -> DataFrame:
    """The bids on an auction in a day, by rank of price."""
    from pyspark.sql import functions as F

    calls = [
        "count(*) AS total_bids",
        *(f"count(*) FILTER (WHERE {rank}) AS rank{n}_bids" for n, rank in enumerate(_RANKS, 1)),
        "min(price) AS min_price",
        "max(price) AS max_price",
        "CAST(avg(price) AS BIGINT) AS avg_price",
        "sum(price) AS sum_price",
    ]
    return events.bid.selectExpr("*", _DAY).groupBy("auction", "day").agg(*map(F.expr, calls))


def q18(events: Events) -> DataFrame:
    """The last bid of each bidder on each auction."""
    from pyspark.sql import functions as F

    last = (F.max_by(column, "date_time").alias(column) for column in ("price", "channel", "url", "extra"))
    return events.bid.groupBy("bidder", "auction").agg(F.max("date_time").alias("date_time"), *last)


def q20(events: Events) -> DataFrame:
    """Bids on auctions of one category, with the auction."""
    bid, auction = events.bid.alias("b"), events.auction.where("category = 10").alias("a")
    columns = (
        *("auction", "bidder", "price", "channel", "url", "b.date_time AS bid_date_time", "b.extra AS bid_extra"),
        *("item_name", "description", "initial_bid", "reserve", "a.date_time AS auction_date_time", "expires"),
        *("seller", "category", "a.extra AS auction_extra"),
    )
    return bid.join(auction, _on("b.auction = a.id")).selectExpr(*columns)


def q21(events: Events) -> DataFrame:
    """Bids with the number of their channel."""
    number = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
    known = " ".join(
        f"WHEN lower(channel) = '{name}' THEN '{n}'" for n, name in enumerate(("apple", "google", "facebook", "baidu"))
    )
    some = events.bid.where(f"{number} IS NOT NULL OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')")
    return some.selectExpr("auction", "bidder", "price", "channel", f"CASE {known} ELSE {number} END AS channel_id")


def q22(events: Events) -> DataFrame:
    """Bids with the directories of their URL."""
    directories = (f"split(url, '/')[{2 + n}] AS dir{n}" for n in (1, 2, 3))
    return events.bid.selectExpr("auction", "bidder", "price", "channel", *directories)


def q23(events: Events) -> DataFrame:
    """Bids of persons who sell something, too, with both."""
    bid, person, auction = events.bid.alias("b"), events.person.alias("p"), events.auction.alias("a")
    columns = (
        *("bidder", "price", "channel", "url", "b.extra AS bid_extra", "p.id AS person_id", "name", "email_address"),
        *("credit_card", "city", "state", "p.extra AS person_extra", "item_name", "description", "initial_bid"),
        *("reserve", "a.date_time AS auction_date_time", "expires", "seller", "category", "a.extra AS auction_extra"),
    )
    known = bid.join(person, _on("p.id = b.bidder"))
    return known.join(auction, _on("a.seller = b.bidder")).selectExpr(*columns)


def _on(condition: str) -> object:
    from pyspark.sql import functions as F

    return F.expr(condition)


def _counted() -> list[object]:
    """Bids, and distinct bidders and auctions: all, and by rank of price."""
    from pyspark.sql import functions as F

    calls = []
    for name, call in (
        ("bids", "count(*)"),
        ("bidders", "approx_count_distinct(bidder)"),
        ("auctions", "approx_count_distinct(auction)"),
    ):
        calls.append(f"{call} AS total_{name}")
        calls += [f"{call} FILTER (WHERE {rank}) AS rank{n}_{name}" for n, rank in enumerate(_RANKS, 1)]
    return [F.expr(call) for call in calls]
