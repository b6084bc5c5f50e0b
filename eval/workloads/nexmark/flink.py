"""NEXMark's queries in Flink SQL: those that give the rows of our PySpark, for Flink beside Spark.

Views and text follow the published SQL; `row_time` is the events' time in Flink's milliseconds, `date_time` is theirs.
"""

from __future__ import annotations

from eval.refusal import CannotRunError
from eval.workloads.nexmark.events import AUCTION, BID, PERSON
from eval.workloads.nexmark.queries import AUCTION_COLUMNS, BID_COLUMNS, PERSON_COLUMNS

ROW_TIME = "row_time"
WATERMARK = f"`{ROW_TIME}` - INTERVAL '4' SECOND"
_HOPPING = (
    "SELECT auction, count(*) AS num, window_start, window_end FROM TABLE(HOP(TABLE bid, DESCRIPTOR(row_time), "
    "INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end"
)
_RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
SELECTS = {
    3: """
SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    5: f"""
SELECT B.window_start, B.window_end, B.auction, B.num FROM ({_HOPPING}) AS B JOIN (
  SELECT max(num) AS most, window_start, window_end FROM ({_HOPPING}) AS C GROUP BY window_start, window_end
) AS M ON B.window_start = M.window_start AND B.window_end = M.window_end AND B.num >= M.most""",
    7: """
SELECT B.window_start, B.window_end, B.auction, B.bidder, B.price, B.date_time, B.extra FROM (
  SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(row_time), INTERVAL '10' SECOND))
) AS B JOIN (
  SELECT max(price) AS most, window_start, window_end
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(row_time), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
) AS M ON B.window_start = M.window_start AND B.window_end = M.window_end AND B.price = M.most""",
    8: """
SELECT P.window_start, P.window_end, P.id, P.name FROM (
  SELECT id, name, window_start, window_end
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(row_time), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end
) AS P JOIN (
  SELECT seller, window_start, window_end
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(row_time), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end
) AS A ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end""",
    11: """
SELECT window_start, window_end, bidder, count(*) AS bid_count
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(row_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end""",
    17: f"""
SELECT auction, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS `day`, count(*) AS total_bids,
  {", ".join(f"count(*) FILTER (WHERE {rank}) AS rank{n}_bids" for n, rank in enumerate(_RANKS, 1))},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY auction, DATE_FORMAT(date_time, 'yyyy-MM-dd')""",
    9: """
SELECT window_start, window_end, id, item_name, description, initial_bid, reserve, expires, seller, category,
  auction_extra, bidder, price, bid_date_time, bid_extra
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY price DESC, bid_date_time ASC) AS place FROM (
    SELECT FLOOR(A.date_time TO SECOND) AS window_start,
      FLOOR(A.date_time TO SECOND) + INTERVAL '1' SECOND AS window_end, A.id, A.item_name, A.description,
      A.initial_bid, A.reserve, A.expires, A.seller, A.category, A.extra AS auction_extra, B.bidder, B.price,
      B.date_time AS bid_date_time, B.extra AS bid_extra
    FROM auction AS A JOIN bid AS B ON A.id = B.auction AND B.date_time BETWEEN A.date_time AND A.expires
  )
) WHERE place <= 1""",
    18: """
SELECT bidder, auction, date_time, price, channel, url, extra FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS place FROM bid
) WHERE place <= 1""",
    20: """
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.date_time AS bid_date_time, B.extra AS bid_extra,
  A.item_name, A.description, A.initial_bid, A.reserve, A.date_time AS auction_date_time, A.expires, A.seller,
  A.category, A.extra AS auction_extra
FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10""",
    23: """
SELECT B.bidder, B.price, B.channel, B.url, B.extra AS bid_extra, P.id AS person_id, P.name, P.email_address,
  P.credit_card, P.city, P.state, P.extra AS person_extra, A.item_name, A.description, A.initial_bid, A.reserve,
  A.date_time AS auction_date_time, A.expires, A.seller, A.category, A.extra AS auction_extra
FROM bid AS B JOIN person AS P ON P.id = B.bidder JOIN auction AS A ON A.seller = B.bidder""",
}


def views(read: set[str]) -> list[str]:
    """Statements that make the views person, auction and bid of the view `events`, with the columns that are read."""
    made = []
    for name, kind, columns in (
        ("person", PERSON, PERSON_COLUMNS),
        ("auction", AUCTION, AUCTION_COLUMNS),
        ("bid", BID, BID_COLUMNS),
    ):
        kept = ", ".join([*(column for column in columns if column in read), ROW_TIME])
        made.append(f"CREATE TEMPORARY VIEW {name} AS SELECT {kept} FROM events WHERE event_type = {kind}")
    return made


def select(q: int) -> str:
    """The query.

    Raises:
        CannotRunError: it has no form here.
    """
    if q not in SELECTS:
        raise CannotRunError(f"NEXMark's q{q} is not written in Flink SQL")
    return SELECTS[q]
