"""The stateful operators that are struck, each in a query over the rows of `application.write_input`.

Results are flat rows, the first columns of which name the group. Where Spark may choose which of several equal rows
survives, nothing of a result depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

WINDOW = ("10 seconds", "5 seconds")


@dataclass(frozen=True)
class Operator:
    """A query; `keys` columns of its result name the group. `drops_late`: rows that come late are dropped. `conf` is of
    spark.slash.*.
    """

    query: Callable[[DataFrame], DataFrame]
    keys: int
    mode: str = "append"
    chained: bool = False
    drops_late: bool = True
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def sink(self) -> str:
        """Spark's sink of files where it takes the mode, since it is the one whose epochs begin again by themselves."""
        return "files" if self.mode == "append" else "batch"


def windows(rows: DataFrame) -> DataFrame:
    """Sliding windows by a key."""
    counted = rows.groupBy(F.window("ts", *WINDOW), "k").agg(F.count("*"), F.sum("v"), F.max("s"), F.avg("v"))
    return counted.select("window.start", *counted.columns[1:])


def groups(rows: DataFrame) -> DataFrame:
    """Groups that never end."""
    return rows.groupBy("k", "s").agg(F.count("*"), F.sum("v"), F.min("ts"))


def sessions(rows: DataFrame) -> DataFrame:
    """Rows of a key come twice a second for two seconds, then pause for as long; late ones join what was apart."""
    bursts = rows.where("v % 400 < 200")
    merged = bursts.groupBy(F.session_window("ts", "1 second"), "k").agg(F.count("*"), F.sum("v"))
    return merged.select("session_window.start", "k", "session_window.end", *merged.columns[2:])


def joined(how: str) -> Callable[[DataFrame], DataFrame]:
    """Each row with a third of those of its key a second later; of an outer join, or with none."""

    def query(rows: DataFrame) -> DataFrame:
        later = rows.where("v % 3 = 0").select(
            F.col("ts").alias("later"), F.col("k").alias("of"), F.col("v").alias("next"), F.col("s").alias("name")
        )
        near = F.expr("k = of AND later BETWEEN ts + INTERVAL 1 SECOND AND ts + INTERVAL 2 SECONDS")
        return rows.join(later, near, how).select("v", "next", "ts", "later", "k", "name")

    return query


def unique(rows: DataFrame) -> DataFrame:
    """A micro-batch repeats a third of the times and keys of the one before it."""
    return rows.where("v >= 0").select("ts", "k").dropDuplicates()  # all; "mid-update" is in the column v


def unique_in_windows(rows: DataFrame) -> DataFrame:
    """A chain of two: windows of the rows that a deduplication leaves."""
    counted = unique(rows).groupBy(F.window("ts", *WINDOW)).agg(F.count("*"), F.sum("k"))
    return counted.select("window.start", *counted.columns[1:])


def joined_in_windows(rows: DataFrame) -> DataFrame:
    """A chain of two: windows of joined rows."""
    pairs = joined("inner")(rows)
    counted = pairs.groupBy(F.window("ts", *WINDOW), "k").agg(F.count("*"), F.sum("next"))
    return counted.select("window.start", *counted.columns[1:])


OPERATORS = {
    "windows, append": Operator(windows, 2),
    "windows, update": Operator(windows, 2, "update"),
    "windows, complete": Operator(windows, 2, "complete", drops_late=False),
    "groups, update": Operator(groups, 2, "update", drops_late=False),
    "sessions": Operator(sessions, 2, conf={"session.rewriteBytes": "1"}),
    "inner join": Operator(joined("inner"), 2),
    "outer join": Operator(joined("left_outer"), 2),
    "unique rows": Operator(unique, 2),
    "unique rows in windows": Operator(unique_in_windows, 1, chained=True),
    "joined rows in windows": Operator(joined_in_windows, 2, chained=True),
}
