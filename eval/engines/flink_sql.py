"""A query as Flink SQL: tables over its files, views between, the aggregation over windows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eval.workloads.base import WATERMARK_MS
from eval.workloads.query import Query

_TYPES = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.binary(16): "BYTES",
}


def tables(query: Query, folder: Path) -> list[str]:
    """Statements that make the view `input`, on which the aggregation stands."""
    time = f"`{query.time}`"
    watermark = f"WATERMARK FOR {time} AS {time} - INTERVAL '{WATERMARK_MS // 1000}' SECOND"
    made = [_table("events", folder / "rows", watermark)]
    where = f" WHERE {query.where}" if query.where else ""
    source = f"(SELECT * FROM events{where})"
    if query.join:
        # A join that keeps the stream's time is one with the version of a table as of that time: here the only one.
        version = "since AS TO_TIMESTAMP('1970-01-01 00:00:00'), WATERMARK FOR since AS since"
        on = f"`{query.join.on}`"
        path = folder / f"{query.join.table}.parquet"
        made.append(_table("other", path, f"{version}, PRIMARY KEY ({on}) NOT ENFORCED"))
        made.append(f"CREATE TEMPORARY VIEW wanted AS SELECT * FROM events{where}")
        source = f"wanted JOIN other FOR SYSTEM_TIME AS OF wanted.{time} ON wanted.{on} = other.{on}"
    columns = ", ".join(f"`{name}`" for name in query.inputs if not query.computed or name != query.computed.name)
    if query.computed:
        columns += f", compute(`{query.computed.column}`) AS `{query.computed.name}`"
    made.append(f"CREATE TEMPORARY VIEW input AS SELECT {columns if query.windowed else '*'} FROM {source}")
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


def _table(name: str, path: Path, more: str) -> str:
    """A table over Parquet files."""
    schema = pq.read_schema(next(path.glob("*.parquet")) if path.is_dir() else path)
    columns = ", ".join(f"`{field.name}` {_type(field.type)}" for field in schema)
    return (
        f"CREATE TEMPORARY TABLE {name} ({columns}, {more}) WITH ('connector' = 'filesystem', "
        f"'path' = 'file://{path}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
    )


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP(6)"
    return _type(kind.value_type) if pa.types.is_dictionary(kind) else _TYPES[kind]
