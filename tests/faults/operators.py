"""The stateful operators that are struck, each in a query over the rows of `application.write_input`.

Results are flat rows, the first columns of which name the group. Where Spark may choose which of several equal rows
survives, nothing of a result depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.support.frames import applied, over_frames, remembering_groups, transformed_frames
from tests.support.processors import COVERED, STORE, counted_by_time, remembering, transformed

WINDOW = ("10 seconds", "5 seconds")
GIVEN = "k long, did string, gave string"


@dataclass(frozen=True)
class Operator:
    """A query; `keys` columns of its result name the group. `drops_late`: rows that come late are dropped. `conf` is of
    spark.slash.*, `of_spark` are settings of Spark that it needs.

    `in_python`: the update, of a chain that of the lowest one, runs in Python, whose tasks publish blocks. `compacts`:
    within a few epochs agents have to fold blocks of several; those of a group state, whose keys time out, and of the
    processor of a chain are dead before. `folds`: agents fold an epoch's blocks. `covered`: whether pyslash runs it on
    this release of Spark.
    """

    query: Callable[[DataFrame], DataFrame]
    keys: int
    mode: str = "append"
    chained: bool = False
    drops_late: bool = True
    conf: dict[str, str] = field(default_factory=dict)
    of_spark: dict[str, str] = field(default_factory=dict)
    in_python: bool = False
    compacts: bool = False
    folds: bool = False
    covered: bool = True

    @property
    def sink(self) -> str:
        """Spark's sink of files where it takes the mode, since it is the one whose epochs begin again by themselves."""
        return "files" if self.mode == "append" else "batch"


def windows(rows: DataFrame) -> DataFrame:
    """Sliding windows by a key."""
    counted = rows.groupBy(F.window("ts", *WINDOW), "k").agg(F.count("*"), F.sum("v"), F.max("s"), F.avg("v"))
    return counted.select("window.start", *counted.columns[1:])


def moments(rows: DataFrame) -> DataFrame:
    """Groups of the event time itself, of which the watermark ends some in each pane."""
    return rows.groupBy("ts", "k").agg(F.count("*"), F.sum("v"), F.max("s"))


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


def processed(rows: DataFrame) -> DataFrame:
    """The user's own state of all kinds, and timers of event time."""
    return transformed(rows, remembering(), "EventTime", GIVEN)


def processed_in_windows(rows: DataFrame) -> DataFrame:
    """A chain of two: windows of what the user's own state gives."""
    counted = counted_by_time(rows).groupBy(F.window("ts", *WINDOW), "k").agg(F.sum("n"), F.sum("total"))
    return counted.select("window.start", *counted.columns[1:])


def processed_frames(rows: DataFrame) -> DataFrame:
    """The same over frames of pandas."""
    return transformed_frames(rows, over_frames(remembering()), "EventTime", output=GIVEN)


def grouped_state(rows: DataFrame) -> DataFrame:
    """A function of pandas with a state for each key, and timeouts of event time."""
    state = "rows long, total long"
    return applied(rows, remembering_groups(), "EventTimeTimeout", output=GIVEN, state=state)


OPERATORS = {
    "windows, append": Operator(windows, 2, folds=True),
    "windows, update": Operator(windows, 2, "update", folds=True),
    "windows, complete": Operator(windows, 2, "complete", drops_late=False, folds=True),
    "event time": Operator(moments, 2, folds=True),
    "groups, update": Operator(groups, 2, "update", drops_late=False, folds=True),
    "sessions": Operator(sessions, 2, conf={"session.rewriteBytes": "1"}),
    "inner join": Operator(joined("inner"), 2),
    "outer join": Operator(joined("left_outer"), 2),
    "unique rows": Operator(unique, 2, folds=True),
    "unique rows in windows": Operator(unique_in_windows, 1, chained=True, folds=True),
    "joined rows in windows": Operator(joined_in_windows, 2, chained=True),
    "processor": Operator(processed, 2, of_spark=STORE, in_python=True, compacts=True, covered=COVERED),
    "processor in windows": Operator(
        processed_in_windows, 2, chained=True, of_spark=STORE, in_python=True, covered=COVERED
    ),
    "processor, frames": Operator(processed_frames, 2, of_spark=STORE, in_python=True, compacts=True, covered=COVERED),
    "group state": Operator(grouped_state, 2, in_python=True, covered=COVERED),
}
