"""Nested values of state: as Spark 4.3 takes them (`tests/streaming/test_processors.py` has the rest)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.types import ArrayType, DataType, DecimalType, IntegerType, LongType, StringType, StructType

from pyslash.errors import StateValueError
from pyslash.operators.transform.state.values import RowForm

PAIR = StructType().add("a", IntegerType()).add("b", StringType())


def form(type: DataType) -> RowForm:
    return RowForm(StructType().add("f", type))


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (DecimalType(10, 2), Decimal("123456789.1")),
        (DecimalType(10, 2), Decimal("99999999.995")),
        (DecimalType(38, 0), Decimal("1e200")),
        (PAIR, (1,)),
        (ArrayType(PAIR), [(1, "x", 2)]),
    ],
)
def test_what_spark_does_not_take_is_its_error(type: DataType, value: Any) -> None:
    with pytest.raises(PySparkRuntimeError, match=r"^Error updating value state: "):
        form(type).kept((value,), "Error updating value state")


def test_what_spark_casts_in_another_way_is_told() -> None:
    with pytest.raises(StateValueError, match="a field of state that is an array"):
        form(ArrayType(IntegerType())).kept((b"ab",), "")


def test_a_row_that_was_read_is_the_processors_own() -> None:
    of = form(ArrayType(ArrayType(LongType())))
    kept = of.kept(([[1]],), "")
    (given,) = of.given(kept)
    given.append(None)
    given[0].append(2)
    assert of.given(kept) == ([[1]],)
