"""Polars: the same query by its streaming engine over the same files, in one go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from eval.engines.base import BATCH, Engine, Runner
from eval.engines.batch import BatchRunner
from eval.machine import version
from eval.refusal import CannotRunError
from eval.workloads import Workload
from eval.workloads.query import Aggregation

if TYPE_CHECKING:
    import polars


class Polars(Engine):
    """In this process, on as many threads as there are cores."""

    kind: ClassVar[str] = BATCH

    def open(self, settings: dict[str, str]) -> Runner:
        """Import it: the number of threads is fixed by then."""
        os.environ["POLARS_MAX_THREADS"] = settings["cores"]
        try:
            import polars  # noqa: F401
        except ImportError:
            raise CannotRunError("polars is not installed: make setup installs it") from None
        return PolarsRunner()

    def versions(self) -> dict[str, str]:
        """Polars's."""
        return {"polars": version("polars")}


class PolarsRunner(BatchRunner):
    """Stateless."""

    def drop(self, workload: Workload, folder: Path) -> None:
        """Collect the frame: Polars has no smaller step."""
        lazy(workload, folder).collect(engine="streaming")

    def result(self, workload: Workload, folder: Path) -> pa.Table:
        """All rows."""
        return lazy(workload, folder).collect(engine="streaming").to_arrow()


def lazy(workload: Workload, folder: Path) -> polars.LazyFrame:
    """The query; `pane` is a window's start in slides since 1970. A sliding window is made of panes aggregated once."""
    import polars as pl

    query = workload.statement
    frame = pl.scan_parquet(str(folder / "rows" / "*.parquet"))
    if query.where:
        frame = frame.filter(pl.sql_expr(query.where))
    if not query.windowed:
        return frame.select(pl.sql_expr(list(query.select)))
    if query.join:
        frame = frame.join(pl.scan_parquet(str(folder / f"{query.join.table}.parquet")), on=query.join.on)
    if query.computed:
        apply = query.computed.function
        column = pl.col(query.computed.column).map_batches(
            lambda values: pl.Series(apply(values.to_numpy())), return_dtype=pl.Float64, is_elementwise=True
        )
        frame = frame.with_columns(column.alias(query.computed.name))
    pane = (pl.col(query.time).dt.epoch("us") // (query.slide_s * 1_000_000)).alias("pane")
    if query.tumbling:
        named = [_partial(each, each.function).alias(each.name) for each in query.aggregations]
        return frame.group_by(pane, *query.keys).agg(named)
    partials = [_partial(each, part).alias(f"{each.name}_{part}") for each in query.aggregations for part in each.parts]
    panes = frame.group_by(pane, *query.keys).agg(partials)
    back = pl.LazyFrame({"slides": list(range(query.window_s // query.slide_s))}, schema={"slides": pl.Int64})
    windows = panes.join(back, how="cross").with_columns(pane=pl.col("pane") - pl.col("slides"))
    return windows.group_by("pane", *query.keys).agg([_final(each).alias(each.name) for each in query.aggregations])


def _partial(each: Aggregation, function: str) -> polars.Expr:
    import polars as pl

    if each.column == "*":
        return pl.len()
    column = pl.col(each.column)
    return column.mean() if function == "avg" else getattr(column, function)()


def _final(each: Aggregation) -> polars.Expr:
    """An aggregate of windows from the partial results of their panes."""
    import polars as pl

    parts = [pl.col(f"{each.name}_{part}") for part in each.parts]
    if each.function == "avg":
        return parts[0].sum() / parts[1].sum()
    return getattr(parts[0], {"count": "sum"}.get(each.function, each.function))()
