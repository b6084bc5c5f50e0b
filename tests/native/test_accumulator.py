"""`Accumulator.add`: what it takes of Arrow, and what it refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyslash import _native, errors
from tests.native.arrow import to_values
from tests.native.blocks import LONG_AGO, QUERY, merged
from tests.native.model import Query

QUERY_OF_STRINGS = Query(10, 10, 0, (("string", True), ("boolean", True)), (1,), (("max", 2), ("count", 2)))


def batch_of(times: list[int | None], *columns: pa.Array, zone: str | None = "UTC") -> pa.RecordBatch:
    """Times first."""
    arrays = [pa.array(times, pa.int64()).cast(pa.timestamp("us", zone)), *columns]
    return pa.record_batch(arrays, names=[f"c{i}" for i in range(len(arrays))])


def test_slices_of_any_kind_are_read_right(arena: _native.Arena) -> None:
    """Offsets of the batch, of its columns, of bitmaps; and a struct array that is itself a slice."""
    times = pa.array(range(20), pa.int64()).cast(pa.timestamp("us", "UTC"))
    names = pa.array([None if i % 5 == 0 else f"name{i % 3}" for i in range(20)])
    flags = pa.array([None if i % 4 == 0 else i % 2 == 1 for i in range(20)])
    plan = _native.Plan(QUERY_OF_STRINGS.text)
    whole = pa.record_batch([times, names, flags], names="tnf")
    padded = pa.record_batch([pa.concat_arrays([a.slice(7, 3), a]).slice(3) for a in whole.columns], names="tnf")
    structs = pa.StructArray.from_arrays(whole.columns, names="tnf")
    results = []
    for pieces in (
        [whole],
        [whole.slice(0, 9), whole.slice(9, 0), whole.slice(9)],
        [padded],
        [padded.slice(0, 13), padded.slice(13)],
        [structs.slice(0, 11), structs.slice(11)],
    ):
        accumulator = _native.Accumulator(plan, LONG_AGO)
        for piece in pieces:
            accumulator.add(piece)
        assert (accumulator.rows, accumulator.late_rows, accumulator.max_event_time) == (20, 0, 19)
        raw = accumulator.seal(arena, QUERY, 0, 0)
        results.append(sorted(to_values(merged(QUERY_OF_STRINGS, arena, [raw], [0, 10])), key=repr))
    assert all(result == results[0] for result in results)
    assert len(results[0]) == accumulator.groups == 8


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "+02:00"])
def test_any_time_zone_is_an_instant(zone: str) -> None:
    """Spark's Arrow batches carry the session's zone."""
    accumulator = _native.Accumulator(_native.Plan(Query(10, 10).text), LONG_AGO)
    accumulator.add(batch_of([1, 2, None], zone=zone))
    assert (accumulator.rows, accumulator.groups) == (3, 1)


def test_late_rows_are_counted_and_dropped() -> None:
    """They are known by the last window of a row; a row without a time is neither late nor kept."""
    accumulator = _native.Accumulator(_native.Plan(Query(10, 5).text), 15)
    accumulator.add(batch_of([0, 4, 5, 9, 12, None]))
    assert (accumulator.rows, accumulator.late_rows, accumulator.groups) == (6, 4, 1)
    assert accumulator.max_event_time == 12


def test_columns_that_are_not_the_plans_are_refused() -> None:
    """Which one, what it is, what it should be."""
    accumulator = _native.Accumulator(_native.Plan(QUERY_OF_STRINGS.text), 0)
    names, flags = pa.array(["a"]), pa.array([True])
    for rows, message in (
        (batch_of([1], names), "rows have 2 columns, but the plan has 3"),
        (batch_of([1], flags, flags), "column 1 is of Arrow format b, but the plan says string"),
        (batch_of([1], names.dictionary_encode(), flags), "column 1 is of Arrow format dictionary"),
        (batch_of([1], names, pa.array([1])), "column 2 is of Arrow format l, but the plan says boolean"),
        (pa.record_batch([pa.array([1]), names, flags], names="tnf"), "the event time is of Arrow format l"),
        (pa.array([1]), "struct array"),
        (pa.array([None], batch_of([1], names, flags).to_struct_array().type), "null is no row"),
    ):
        with pytest.raises(errors.InvalidInputError, match=message):
            accumulator.add(rows)
    with pytest.raises(TypeError, match="__arrow_c_array__"):
        accumulator.add([1])
    assert accumulator.rows == 0


def test_an_export_that_was_consumed_is_refused() -> None:
    """As Arrow's rules have it, a consumer leaves an empty shell."""
    rows = batch_of([1])
    capsules = rows.__arrow_c_array__()
    pa.RecordBatch._import_from_c_capsule(*capsules)

    class Consumed:
        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            return capsules

    with pytest.raises(errors.InvalidInputError, match="already been consumed"):
        _native.Accumulator(_native.Plan(Query(10, 10).text), 0).add(Consumed())


def test_an_event_time_may_have_no_zone() -> None:
    accumulator = _native.Accumulator(_native.Plan(Query(10, 10).text), LONG_AGO)
    accumulator.add(pa.record_batch([pa.array([1, 2, None], pa.timestamp("us"))], names=["ts"]))
    assert (accumulator.rows, accumulator.groups) == (3, 1)
