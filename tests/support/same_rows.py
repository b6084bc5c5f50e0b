"""Comparing what native code has read with what Spark has, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame


def assert_same(found: pa.Table, expected: pa.Table, place: Callable[[int], object]) -> None:
    """The same rows in the same order; `place` says of a row's number where it is from."""
    assert (found.column_names, found.schema.types) == (expected.column_names, expected.schema.types)
    assert found.num_rows == expected.num_rows
    for (name, ours), (_, sparks) in zip(leaves(found), leaves(expected), strict=True):
        if not ours.equals(sparks):
            different = pc.or_kleene(pc.not_equal(ours, sparks), pc.xor(ours.is_null(), sparks.is_null()))
            row = pc.index(different.fill_null(True), True).as_py()
            pytest.fail(f"{name} of {place(row)!r}: {ours[row]}, and Spark reads {sparks[row]}")


def assert_same_bytes(found: DataFrame, expected: DataFrame, place: Callable[[int], object]) -> None:
    """UnsafeRows of the same bytes: by these Spark tells structs apart."""
    ours, sparks = words(found), words(expected)
    assert len(ours) == len(sparks)
    for row, (one, other) in enumerate(zip(ours, sparks, strict=True)):
        assert one == other, f"{place(row)!r}"


def words(rows: DataFrame) -> list[str]:
    """The words of each UnsafeRow, as hexadecimal numbers."""
    return str(rows._jdf.queryExecution().executedPlan().executeToIterator().mkString("\n")).split("\n")


def leaves(table: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """All columns, those of structs included, as numbers and strings that are equal if they are the same bit by bit.

    A struct, a list or a map is whether it is null, and what is in it.
    """
    for name in table.column_names:
        column = table[name].combine_chunks()
        kind = column.type
        if pa.types.is_struct(kind):
            yield name, column.is_null()
            children = pa.table(column.flatten(), [f"{name}.{field.name}" for field in kind])
            yield from leaves(children)
        elif pa.types.is_temporal(kind) or pa.types.is_floating(kind):
            yield name, column.view(f"int{kind.bit_width}")
        elif pa.types.is_map(kind):
            sizes = pc.subtract(column.offsets[1:], column.offsets[:-1])
            yield name, pc.if_else(column.is_null(), None, sizes)
            yield from leaves(pa.table([column.keys, column.items], [f"{name}.keys", f"{name}.items"]))
        elif pa.types.is_list(kind):
            yield name, pc.list_value_length(column)
            yield from leaves(pa.table([column.flatten()], [f"{name}[]"]))
        else:
            yield name, column
