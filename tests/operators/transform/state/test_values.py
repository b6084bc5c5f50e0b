"""Nested values of state: as Spark 4.3 takes them (`tests/streaming/test_processors.py` has the rest)."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from pyslash.errors import StateValueError
from pyslash.operators.transform.state.values import RowForm

PAIR = StructType().add("a", IntegerType()).add("b", StringType())


def form(type: DataType) -> RowForm:
    return RowForm(StructType().add("f", type))


class Word(str):
    """Of a class of its own, as members of enums are."""


class Real(float):
    """The same."""


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (StringType(), Word("x")),
        (StringType(), Number.ONE),
        (LongType(), Number.ONE),
        (DoubleType(), Real(1)),
        (ArrayType(StringType()), [Word("x")]),
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


def test_a_row_with_more_values_than_a_schema_with_times_has_is_cut() -> None:
    """By PySpark, which converts as many as there are fields; of others, Spark says that there are too many."""
    day = StructType().add("day", "date").add("n", IntegerType())
    assert RowForm(day).kept((date(1970, 1, 3), 5, "more"), "") == (2, 5)
    with pytest.raises(PySparkRuntimeError, match="1 fields are required while 2 values are provided"):
        form(LongType()).kept((1, 2), "")
    with pytest.raises(PySparkRuntimeError, match="2 fields are required while 1 values are provided"):
        RowForm(day).kept((date(1970, 1, 3),), "")


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
