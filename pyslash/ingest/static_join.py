"""Joins of a micro-batch's rows with static tables, in the tasks that read the rows.

It works like Spark's broadcast hash join: the table is collected, sent to every executor, and looked up by its key. A
table with a duplicate key is left to Spark, so one row never becomes two.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import Broadcast, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyslash._native import KeyIndex, Plan
from pyslash.errors import InvalidInputError
from pyslash.file_systems import FILE_ERRORS, reason_of
from pyslash.ingest.only_spark import OnlySpark, arrow_type_of
from pyslash.plan.spec import ANY_WINDOW, AggregateSpec, ColumnSpec, PlanSpec
from pyslash.plan.types import native_type

MOST_TABLE_BYTES = 256 << 20
"""A larger table is left to Spark, because every Python worker that joins has its own copy."""


class StaticTable:
    """Rows, each with a key. The index over the keys is built again, once, where it is sent."""

    def __init__(self, rows: pa.Table, types: Sequence[str], keys: Sequence[int]) -> None:
        """`types` are the columns' Spark types, `keys` the numbers of the key columns."""
        schema = pa.schema([(str(number), arrow_type_of(spark_type)) for number, spark_type in enumerate(types)])
        named = rows.rename_columns(schema.names).cast(schema)
        for key in keys:
            named = named.filter(named.column(key).is_valid())  # SQL's null equals nothing
        # One batch: rows are taken out of it by their numbers.
        self.rows = pa.record_batch([column.combine_chunks() for column in named.columns], schema=schema)
        self._keys = list(keys)
        self._key_types = [native_type(types[key], "a key") for key in keys]

    def __getstate__(self) -> dict[str, Any]:
        """Without the index."""
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    def find(self, keys: Sequence[pa.Array]) -> np.ndarray:
        """Of each row of some key columns, which row here has its key; -1 where none has.

        Raises:
            OnlySpark: two rows here have the same key.
        """
        batch = _keyed(keys)
        found = np.empty(len(batch), np.int32)
        self._index.find(batch, found.data)
        return found

    @cached_property
    def _index(self) -> KeyIndex:
        plan = PlanSpec(
            window=ANY_WINDOW,
            columns=tuple(ColumnSpec(native, True) for native in self._key_types),
            keys=tuple(range(1, len(self._key_types) + 1)),
            aggregates=(AggregateSpec("count"),),
        )
        index = KeyIndex(Plan(plan.text))
        try:
            index.add(_keyed([self.rows.column(key) for key in self._keys]))
        except InvalidInputError as error:
            raise OnlySpark(f"the table that it joins with has not one row a key: {error}") from None
        return index


@dataclass(frozen=True)
class StaticJoin:
    """A join as `io.pyslash.ingest.FileScan` tells it.

    `late`: above the watermark; `outer`: rows without one in the table are kept. `keys` are (name, Spark type) of the
    columns of the files; `columns` the Spark types of the table's, and `table_keys` the numbers of its keys.
    """

    late: bool
    outer: bool
    keys: list[tuple[str, str]]
    columns: list[str]
    table_keys: list[int]
    table: Broadcast[StaticTable] | None = None

    @classmethod
    def parse(cls, told: dict[str, Any]) -> StaticJoin:
        """Of the description.

        Raises:
            OnlySpark: a type is none that the native core has.
        """
        for spark_type in told["columns"]:
            arrow_type_of(spark_type)
        keys = [(str(name), str(spark_type)) for name, spark_type in told["keys"]]
        return cls(told["late"], told["outer"], keys, told["columns"], told["table_keys"])

    def apply(self, rows: pa.RecordBatch, number: int, wanted: Container[str]) -> pa.RecordBatch:
        """The joined rows, with those columns of the table that are wanted: `<number>.<column>`."""
        assert self.table is not None
        table = self.table.value
        found = table.find([rows.column(name) for name, _ in self.keys])
        there = found >= 0
        if there.all():
            places = pa.array(found)
        elif self.outer:
            places = pa.array(found, mask=~there)
        else:
            rows, places = rows.filter(pa.array(there)), pa.array(found[there])
        for index, column in enumerate(table.rows.columns):
            if (name := f"{number}.{index}") in wanted:
                rows = rows.append_column(name, column.take(places))
        return rows


@dataclass(frozen=True)
class _Sent:
    source: Any  # the JVM's `StaticTable`
    join: StaticJoin  # as it was told
    rows: pa.RecordBatch
    table: Broadcast[StaticTable]


class StaticTables:
    """The tables of one query's joins, sent to executors again when their rows have changed.

    Rows are collected again for each micro-batch, as in Spark, unless they come from files that have not changed.
    Tables that were sent are freed once other rows replace them: no task of an earlier epoch is running then.
    """

    def __init__(self) -> None:
        self._sent: dict[int, _Sent] = {}

    def close(self) -> None:
        """Free all tables, on the driver and on executors. After the end of the application they are gone already."""
        sent, self._sent = self._sent, {}
        for one in sent.values():
            _take_back(one.table)

    def send(self, session: SparkSession, scan: Any, joins: Sequence[StaticJoin]) -> list[StaticJoin]:
        """The joins with their tables.

        Args:
            session: the micro-batch's.
            scan: the JVM's `FileScan`, which knows the tables.
            joins: as it tells them.

        Raises:
            OnlySpark: a table is too large, or empty where the join needs a row, or two of its rows have the same key.
        """
        return [replace(join, table=self._table(session, scan, number, join)) for number, join in enumerate(joins)]

    def _table(self, session: SparkSession, scan: Any, number: int, join: StaticJoin) -> Broadcast[StaticTable]:
        source, sent = scan.table(session._jsparkSession, number), self._sent.get(number)
        # Spark may plan a micro-batch with another join here, which looks up the same rows by other keys.
        same = sent if sent is not None and sent.join == join else None
        if same is not None and source.isSameAs(same.source):
            return same.table
        try:
            rows = DataFrame(source.rows(), session).toArrow()
        except (Py4JError, PySparkException, *FILE_ERRORS, ValueError) as error:  # which Spark need not meet
            raise OnlySpark(f"the table that it joins with cannot be collected: {reason_of(error)}") from None
        if rows.nbytes > MOST_TABLE_BYTES:
            raise OnlySpark(f"the table that it joins with has {rows.nbytes} bytes")
        if not (rows.num_rows or join.outer):
            # Spark need not read a row then, and so may see no event time: what its plan does is its own.
            raise OnlySpark("the table that it joins with is empty")
        table = StaticTable(rows, join.columns, join.table_keys)
        if same is not None and table.rows.equals(same.rows):
            broadcast = same.table
        else:
            table.find([table.rows.column(key) for key in join.table_keys])  # whether there is one row a key
            broadcast = session.sparkContext.broadcast(table)
            if sent is not None:
                _take_back(sent.table)
        self._sent[number] = _Sent(source, join, table.rows, broadcast)
        return broadcast


def _take_back(table: Broadcast[StaticTable]) -> None:
    context = SparkContext._active_spark_context
    if context is not None and context is table._sc and not context._jsc.sc().isStopped():
        table.destroy()


def _keyed(keys: Sequence[pa.Array]) -> pa.RecordBatch:
    """Keys as the native core takes rows: behind an event time, here of no meaning."""
    times = pa.array(np.zeros(len(keys[0]), "datetime64[us]")).cast(arrow_type_of("timestamp"))
    return pa.record_batch([times, *keys], ["", *map(str, range(len(keys)))])
