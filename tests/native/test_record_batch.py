"""The Arrow arrays that leave the core: shared, released by whoever holds them last."""

from __future__ import annotations

import gc

import pyarrow as pa

from pyslash import _native
from tests.native.blocks import add_block, sealed_rows
from tests.native.model import Query

STRINGS = Query(10, 10, 0, (("string", True), ("decimal(7,2)", True)), (1,), (("min", 1), ("max", 2), ("count", 2)))


def first_batch(arena: _native.Arena) -> _native.RecordBatch:
    """A thousand groups."""
    raw = sealed_rows(STRINGS, arena, [(1, f"key{i}", None) for i in range(999)] + [(2, None, None)])
    merger = _native.Merger(_native.Plan(STRINGS.text), [0])
    add_block(merger, arena, raw)
    rows = merger.next()
    assert rows is not None
    return rows


def test_a_batch_can_be_exported_again_and_again(arena: _native.Arena) -> None:
    """Every export shares the same buffers, which outlive batch, merger and arena."""
    rows = first_batch(arena)
    assert len(rows) == rows.num_rows == 1000
    assert "1000 rows" in repr(rows)
    first, second = pa.record_batch(rows), pa.record_batch(rows)
    assert first.schema == pa.schema(rows)
    assert first.column(2).buffers()[2].address == second.column(2).buffers()[2].address
    column = first.column(2)
    del rows, first
    gc.collect()
    assert column.equals(second.column(2))
    assert column.null_count == 1
    assert sorted(filter(None, column.to_pylist())) == sorted(f"key{i}" for i in range(999))


def test_an_export_that_nobody_consumes_is_freed(arena: _native.Arena) -> None:
    """Its capsules own it (the sanitizer builds would tell of a leak)."""
    rows = first_batch(arena)
    for _ in range(3):
        assert len(rows.__arrow_c_array__()) == 2
    assert pa.record_batch(rows).num_rows == 1000


def test_a_child_may_outlive_its_parent(arena: _native.Arena) -> None:
    """Arrow lets a consumer move single columns out."""
    structs = pa.array(first_batch(arena))
    counts = structs.field(5)
    del structs
    gc.collect()
    assert counts.to_pylist() == [0] * 1000
