"""NEXMark's queries in Flink SQL: those that give the rows of our PySpark, for Flink beside Spark.

Views and text follow the published SQL; `row_time` is the events' time in Flink's milliseconds, `date_time` is theirs.
"""

from __future__ import annotations

from eval.workloads.nexmark.events import AUCTION, BID, PERSON

ROW_TIME = "row_time"
WATERMARK = f"`{ROW_TIME}` - INTERVAL '4' SECOND"
VIEWS = (
    "CREATE TEMPORARY VIEW person AS SELECT id, name, email_address, credit_card, city, state, date_time, row_time, "
    f"extra FROM events WHERE event_type = {PERSON}",
    "CREATE TEMPORARY VIEW auction AS SELECT id, item_name, description, initial_bid, reserve, expires, seller, "
    f"category, date_time, row_time, extra FROM events WHERE event_type = {AUCTION}",
    "CREATE TEMPORARY VIEW bid AS SELECT auction, bidder, price, channel, url, date_time, row_time, "
    f"extra FROM events WHERE event_type = {BID}",
)
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
SELECT bidder, window_start, window_end, count(*) AS bid_count
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(row_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end""",
    17: f"""
SELECT auction, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS `day`, count(*) AS total_bids,
  {", ".join(f"count(*) FILTER (WHERE {rank}) AS rank{n}_bids" for n, rank in enumerate(_RANKS, 1))},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY auction, DATE_FORMAT(date_time, 'yyyy-MM-dd')""",
}
