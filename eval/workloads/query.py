"""A workload's query, said once for every engine: Spark, SQL and Polars each build it from this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from eval.workloads.newton import Newton

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW_COLUMNS = ("window_start", "window_end")


@dataclass(frozen=True)
class Aggregation:
    """`function(column) AS name`; column `*` goes with count alone."""

    name: str
    function: str
    column: str

    @property
    def sql(self) -> str:
        """As every SQL dialect has it."""
        return f"{self.function}({self.column})"

    @property
    def parts(self) -> tuple[str, ...]:
        """The aggregates that its partial results are."""
        return ("sum", "count") if self.function == "avg" else (self.function,)


@dataclass(frozen=True)
class Computed:
    """A column of doubles by a function over whole numpy arrays, the same in every engine's own vectorised UDF."""

    name: str
    column: str
    function: Newton


@dataclass(frozen=True)
class Join:
    """An inner join with a table of the workload's folder (`<table>.parquet`) on one column of the same name."""

    table: str
    on: str


@dataclass(frozen=True)
class Pairs:
    """An inner join of the rows with those of which the column `right` is true, by one column.

    They are of the same window, or the right one is at most `within_s` after the other one.
    """

    right: str
    on: str
    within_s: int
    by_window: bool


@dataclass(frozen=True)
class Query:
    """Filter, join, compute a column, then aggregate by window and keys; without aggregations: `select` as it is.

    `by_window`: else by keys alone. With a `gap_s` windows are sessions, which only Spark's engines are asked for;
    `window_s` is then a length that most of them do not reach. `unique`: instead of aggregating, one row of
    `select` for each value of these columns. `pairs`: instead, `select` of rows that are joined with each other.

    `where` and `select` are SQL that Spark, DuckDB, Flink and Polars read alike.
    """

    time: str
    select: tuple[str, ...] = ()
    where: str | None = None
    join: Join | None = None
    computed: Computed | None = None
    keys: tuple[str, ...] = ()
    aggregations: tuple[Aggregation, ...] = ()
    window_s: int = 10
    slide_s: int = 10
    by_window: bool = True
    unique: tuple[str, ...] = ()
    gap_s: int = 0
    pairs: Pairs | None = None

    def __post_init__(self) -> None:
        """Windows are whole numbers of slides, so that a slide is a pane."""
        if self.window_s % self.slide_s:
            raise ValueError(f"a window of {self.window_s} s is no multiple of its slide of {self.slide_s} s")

    @property
    def windowed(self) -> bool:
        """Whether there is any state."""
        return bool(self.aggregations or self.unique or self.pairs)

    @property
    def tumbling(self) -> bool:
        """Whether windows do not overlap."""
        return self.window_s == self.slide_s

    @property
    def columns(self) -> tuple[str, ...]:
        """The result's columns in order."""
        if not self.aggregations:
            return tuple(item.split(" AS ")[-1] for item in self.select)
        return (*self.identity, *(each.name for each in self.aggregations))

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of the result that tell its rows apart."""
        if not self.aggregations:
            return self.unique or self.columns
        return (*WINDOW_COLUMNS, *self.keys) if self.by_window else self.keys

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the aggregation reads: keys, the event time and the arguments, without repeats."""
        arguments = [each.column for each in self.aggregations if each.column != "*"]
        return tuple(dict.fromkeys((self.time, *self.keys, *arguments)))

    def on_spark(self, spark: SparkSession, rows: DataFrame, folder: Path, watermark: str) -> DataFrame:
        """The query over `rows`, a stream or a batch of them."""
        from pyspark.sql import functions as F

        rows = self.below_on_spark(spark, rows, folder, watermark)
        if self.pairs:
            return self._paired(rows).selectExpr(*self.select)
        if not self.aggregations:
            selected = rows.selectExpr(*self.select)
            return selected.dropDuplicates(list(self.unique)) if self.unique else selected
        window = [F.window(self.time, f"{self.window_s} seconds", f"{self.slide_s} seconds")] if self.by_window else []
        if self.gap_s:
            window = [F.session_window(self.time, f"{self.gap_s} seconds").alias("window")]
        named = [F.expr(each.sql).alias(each.name) for each in self.aggregations]
        return rows.groupBy(*window, *self.keys).agg(*named)

    def _paired(self, rows: DataFrame) -> DataFrame:
        """Rows with those of the other stream, whose columns begin with `r_`."""
        from pyspark.sql import functions as F

        assert self.pairs is not None
        near = f"r_{self.time} BETWEEN {self.time} AND {self.time} + INTERVAL {self.pairs.within_s} SECONDS"
        left, right = rows.where(f"NOT {self.pairs.right}"), rows.where(self.pairs.right)
        if self.pairs.by_window:
            near = "w = r_w"
            window = F.window(self.time, f"{self.pairs.within_s} seconds").alias("w")
            left, right = (side.select(window, *(c for c in side.columns if c != self.time)) for side in (left, right))
        right = right.select(*(F.col(column).alias(f"r_{column}") for column in right.columns))
        return left.join(right, F.expr(f"{self.pairs.on} = r_{self.pairs.on} AND {near}"))

    def below_on_spark(self, spark: SparkSession, rows: DataFrame, folder: Path, watermark: str) -> DataFrame:
        """What is below the aggregation, or below the projection where there is none.

        The filter stands before the watermark, where Spark's optimizer would move it anyway, so that the watermark is
        the same whoever runs the query.
        """
        from pyspark.sql import functions as F

        if self.where:
            rows = rows.where(self.where)
        if not self.windowed:
            return rows
        rows = rows.withWatermark(self.time, watermark)
        if self.join:
            table = spark.read.parquet(str(folder / f"{self.join.table}.parquet"))
            rows = rows.join(F.broadcast(table), self.join.on)
        if self.computed:
            rows = rows.withColumn(self.computed.name, _pandas(self.computed)(self.computed.column))
        return rows


def _pandas(computed: Computed) -> Callable[[str], object]:
    """The function as a pandas UDF.

    Spark SQL could say it by `aggregate(sequence(...))`, but interprets that lambda, at 160 ns a step: twenty times
    the arithmetic, and an engine's share would drown in it.
    """
    from pyspark.sql.functions import pandas_udf

    function = computed.function

    def apply(values: pd.Series) -> pd.Series:
        return pd.Series(function(values.to_numpy()))

    return pandas_udf(apply, "double")
