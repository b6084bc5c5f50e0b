"""A workload as Flink SQL: the columns of its stream, views on it, and the query over them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eval.workloads import Nexmark, Workload
from eval.workloads.base import WATERMARK_MS
from eval.workloads.nexmark import flink as nexmark
from eval.workloads.query import Query

_TYPES = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.binary(): "BYTES",
}


@dataclass(frozen=True)
class FlinkJob:
    """`columns` of the files with their types, columns `computed` of them, the `time` with its `watermark`, if any.

    `views` are statements that make views of the view `events`; `select` is the query. `iterations`: of the function
    `compute`, if the query has it.
    """

    columns: dict[str, str]
    time: str
    watermark: str | None
    views: list[str]
    select: str
    computed: dict[str, str] = field(default_factory=dict)
    iterations: int | None = None


def job_of(workload: Workload, folder: Path) -> FlinkJob:
    """The workload's query over the files of its folder."""
    if isinstance(workload, Nexmark):
        return _nexmark(workload, folder)
    query = workload.statement
    return FlinkJob(
        columns=columns(query, folder),
        time=query.time,
        watermark=f"`{query.time}` - INTERVAL '{WATERMARK_MS // 1000}' SECOND" if query.windowed else None,
        views=views(query, folder),
        select=select(query),
        iterations=query.computed.function.iterations if query.computed else None,
    )


def _nexmark(workload: Nexmark, folder: Path) -> FlinkJob:
    """Event time has milliseconds in Flink; as a column of the result it keeps its microseconds."""
    wanted = nexmark.select(workload.q)
    read = {*re.findall(r"\w+", wanted), "event_type", workload.event_time}
    found = {name: kind for name, kind in _types(folder).items() if name in read}
    return FlinkJob(
        columns=found,
        time=nexmark.ROW_TIME,
        watermark=nexmark.WATERMARK,
        views=nexmark.views(set(found)),
        select=wanted,
        computed={nexmark.ROW_TIME: f"CAST({workload.event_time} AS TIMESTAMP(3))"},
    )


def _types(folder: Path) -> dict[str, str]:
    schema = pq.read_schema(next((folder / "rows").glob("*.parquet")))
    return {field.name: type_of(field.type) for field in schema}


def columns(query: Query, folder: Path) -> dict[str, str]:
    """Those of the files that the query reads, with Flink's types. Event time has milliseconds there, never less."""
    computed = [query.computed.column] if query.computed else []
    on = [query.join.on] if query.join else []
    read = re.findall(r"\w+", " ".join([*query.inputs, *query.select, query.where or "", *computed, *on]))
    types = {name: kind for name, kind in _types(folder).items() if name in read}
    return types | ({query.time: "TIMESTAMP(3)"} if query.windowed else {})


def views(query: Query, folder: Path) -> list[str]:
    """Statements that make the view `input`, on which the aggregation stands, from the view `events`."""
    made = []
    where = f" WHERE {query.where}" if query.where else ""
    source = f"events{where}"
    if query.join:
        # A join that keeps the stream's time is one with the version of a table as of that time: here the only one.
        on = f"`{query.join.on}`"
        made.append(_versioned("other", folder / f"{query.join.table}.parquet", on))
        made.append(f"CREATE TEMPORARY VIEW wanted AS SELECT * FROM events{where}")
        source = f"wanted JOIN other FOR SYSTEM_TIME AS OF wanted.`{query.time}` ON wanted.{on} = other.{on}"
    selected = ", ".join(f"`{name}`" for name in query.inputs if not query.computed or name != query.computed.name)
    if query.computed:
        selected += f", compute(`{query.computed.column}`) AS `{query.computed.name}`"
    made.append(f"CREATE TEMPORARY VIEW input AS SELECT {selected if query.windowed else '*'} FROM {source}")
    return made


def select(query: Query) -> str:
    """The query over the view `input`."""
    if not query.windowed:
        return f"SELECT {', '.join(query.select)} FROM input"
    size, slide = (f"INTERVAL '{seconds}' SECOND" for seconds in (query.window_s, query.slide_s))
    lengths = f"TUMBLE(TABLE input, DESCRIPTOR(`{query.time}`), {size}"
    if not query.tumbling:
        lengths = f"HOP(TABLE input, DESCRIPTOR(`{query.time}`), {slide}, {size}"
    keys = ", ".join(["window_start", "window_end", *(f"`{key}`" for key in query.keys)])
    named = ", ".join(
        f"{each.function}({each.column if each.column == '*' else f'`{each.column}`'}) AS `{each.name}`"
        for each in query.aggregations
    )
    return f"SELECT {keys}, {named} FROM TABLE({lengths})) GROUP BY {keys}"


def _versioned(name: str, path: Path, key: str) -> str:
    """A table with one version of each row, since 1970."""
    schema = pq.read_schema(path)
    declared = ", ".join(f"`{field.name}` {type_of(field.type)}" for field in schema)
    since = "since AS TO_TIMESTAMP('1970-01-01 00:00:00'), WATERMARK FOR since AS since"
    return (
        f"CREATE TEMPORARY TABLE {name} ({declared}, {since}, PRIMARY KEY ({key}) NOT ENFORCED) "
        f"WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'parquet')"
    )


def type_of(kind: pa.DataType) -> str:
    """Flink's name of an Arrow type."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP(6)"
    return type_of(kind.value_type) if pa.types.is_dictionary(kind) else _TYPES[kind]
