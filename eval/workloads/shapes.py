"""Queries as one meets them in jobs, beside windows and counts: the latest row of a key, lists, quantiles, odd keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from eval.workloads.base import WATERMARK
from eval.workloads.grouped import Grouped
from eval.workloads.query import Aggregation, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LATEST, LATEST_BY, LISTS = "latest row of a key", "latest row, max_by", "list of a key"
QUANTILES, BY_TIME, SHIFTED = "quantiles, sliding windows", "by the event time", "windows of a shifted time"
BY_STRUCT, ARRAYS = "deduplication by a struct", "largest array"
KINDS = (LATEST, LATEST_BY, LISTS, QUANTILES, BY_TIME, SHIFTED, BY_STRUCT, ARRAYS)

_BY_KEY = {
    LATEST: "max(struct(ts, value)).value",
    LATEST_BY: "max_by(struct(ts, value), struct(ts, value)).value",
    LISTS: "size(collect_list(value))",
}
_BY_WINDOW = {
    QUANTILES: "percentile_approx(value, 0.95)",
    SHIFTED: "sum(value)",
    ARRAYS: "max(array(value, key))[1]",
}


@dataclass(frozen=True)
class Shape(Grouped):
    """`kind`: one of `KINDS`. All but the deduplication are in update mode."""

    name: ClassVar[str] = "shape"

    kind: str = LATEST

    @property
    def output_mode(self) -> str:
        """A deduplication's is append, in which what comes of it is the same."""
        return "append" if self.kind == BY_STRUCT else self.mode

    @property
    def is_judged_by_stream(self) -> bool:
        """A row comes in the micro-batch in which its key is new, or its group has changed."""
        return True

    @property
    def query_name(self) -> str:
        """An engine that is warm for one kind is not for the others."""
        return f"{self.name}-{self.kind}"

    @property
    def rows_of(self) -> Self:
        """All kinds read the same rows."""
        return replace(super().rows_of, kind=LATEST)

    @property
    def statement(self) -> Query:
        """Of what it is, as far as it can be said for all engines: its columns, and that there is state."""
        if self.kind == BY_STRUCT:
            return Query(time="ts", select=("key", "value"), unique=("key",))
        counted = (Aggregation("result", "max", "value"), Aggregation("count", "count", "*"))
        keys = ("ts", "key") if self.kind == BY_TIME else ("key",)
        by_window = self.kind in _BY_WINDOW
        slide_s = self.slide_s if by_window else self.window_s
        return Query(
            "ts", keys=keys, aggregations=counted, window_s=self.window_s, slide_s=slide_s, by_window=by_window
        )

    def query(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        """The query of this kind; groups have a `result` and a count."""
        from pyspark.sql import functions as F

        if self.kind == BY_TIME:
            rows = rows.withColumn("ts", F.date_trunc("second", "ts"))
        rows = rows.withWatermark("ts", WATERMARK)
        if self.kind == BY_STRUCT:
            keyed = rows.select(F.struct("key", F.pmod("value", F.lit(2)).alias("half")).alias("id"))
            return keyed.dropDuplicates(["id"]).select("id.key", "id.half")
        count = F.count("*").alias("count")
        if self.kind == BY_TIME:
            return rows.groupBy("ts", "key").agg(F.max("value").alias("result"), count)
        if self.kind in _BY_KEY:
            return rows.groupBy("key").agg(F.expr(_BY_KEY[self.kind]).alias("result"), count)
        time = F.expr("ts + INTERVAL 1 HOUR") if self.kind == SHIFTED else F.col("ts")
        window = F.window(time, f"{self.window_s} seconds", f"{self.slide_s} seconds")
        return rows.groupBy(window, "key").agg(F.expr(_BY_WINDOW[self.kind]).alias("result"), count)
