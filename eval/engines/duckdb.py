"""DuckDB: the same query in SQL over the same files, in one go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from eval.engines.base import BATCH, Engine, Runner
from eval.engines.batch import BatchRunner
from eval.machine import version
from eval.refusal import CannotRunError
from eval.workloads import Workload
from eval.workloads.query import Query

if TYPE_CHECKING:
    import duckdb

ROWS_A_BATCH = 1_000_000


class DuckDb(Engine):
    """In this process, on as many threads as there are cores."""

    kind: ClassVar[str] = BATCH

    def open(self, settings: dict[str, str]) -> Runner:
        """A database in memory."""
        try:
            import duckdb
        except ImportError:
            raise CannotRunError("duckdb is not installed: make setup installs it") from None
        return DuckDbRunner(duckdb.connect(config={"threads": settings["cores"]}))

    def versions(self) -> dict[str, str]:
        """DuckDB's."""
        return {"duckdb": version("duckdb")}


class DuckDbRunner(BatchRunner):
    """A connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._connection.execute("SET TimeZone = 'UTC'")
        self._functions: dict[str, str] = {}

    def drop(self, workload: Workload, folder: Path) -> None:
        """Fetch the result batch by batch, which is the least a client can do."""
        reader = self._relation(workload, folder).to_arrow_reader(ROWS_A_BATCH)
        for _ in reader:
            pass

    def result(self, workload: Workload, folder: Path) -> pa.Table:
        """All rows."""
        return self._relation(workload, folder).to_arrow_table()

    def close(self) -> None:
        """Forget the database."""
        self._connection.close()

    def _relation(self, workload: Workload, folder: Path) -> duckdb.DuckDBPyRelation:
        query = workload.statement
        function = self._function(query) if query.computed else ""
        return self._connection.sql(sql(query, folder, function))

    def _function(self, query: Query) -> str:
        """The name under which DuckDB knows the query's function."""
        assert query.computed is not None
        apply = query.computed.function
        name = self._functions.get(repr(apply))
        if name is None:
            name = self._functions[repr(apply)] = f"{query.computed.name}{len(self._functions)}"
            self._connection.create_function(
                name, lambda values: pa.array(apply(values.to_numpy())), ["DOUBLE"], "DOUBLE", type="arrow"
            )
        return name


# A window's result from the partial results of its panes.
_FINAL = {
    "sum": "sum({0}_sum)",
    "count": "sum({0}_count)",
    "min": "min({0}_min)",
    "max": "max({0}_max)",
    "avg": "sum({0}_sum) / sum({0}_count)",
}


def sql(query: Query, folder: Path, function: str) -> str:
    """The statement; `pane` is a window's start in slides since 1970.

    A sliding window is made of panes, each aggregated once, as a careful author would write it: by hand, DuckDB would
    aggregate every row once a window.
    """
    source = f"read_parquet('{folder}/rows/*.parquet') AS rows"
    if query.join:
        source += f" JOIN read_parquet('{folder}/{query.join.table}.parquet') AS other USING ({query.join.on})"
    where = f" WHERE {query.where}" if query.where else ""
    if not query.windowed:
        return f"SELECT {', '.join(query.select)} FROM {source}{where}"
    pane = f"epoch_us({query.time}) // {query.slide_s * 1_000_000} AS pane"
    computed = f", {function}({query.computed.column}) AS {query.computed.name}" if query.computed else ""
    rows = f"(SELECT *{computed} FROM {source}{where})"
    keys = ", ".join(("pane", *query.keys))
    select = ", ".join((pane, *query.keys))
    if query.tumbling:
        named = ", ".join(f"{each.sql} AS {each.name}" for each in query.aggregations)
        return f"SELECT {select}, {named} FROM {rows} GROUP BY {keys}"
    partial = ", ".join(
        f"{part}({each.column}) AS {each.name}_{part}" for each in query.aggregations for part in each.parts
    )
    final = ", ".join(f"{_FINAL[each.function].format(each.name)} AS {each.name}" for each in query.aggregations)
    panes = f"SELECT {select}, {partial} FROM {rows} GROUP BY {keys}"
    back = f"range({query.window_s // query.slide_s}) AS earlier(slides)"
    moved = ", ".join(("pane - slides AS pane", *query.keys))
    return f"WITH panes AS ({panes}) SELECT {moved}, {final} FROM panes, {back} GROUP BY pane - slides, {keys[6:]}"
