"""What is left to Spark, because Spark might read it differently."""

from __future__ import annotations

import pyarrow as pa

from pyslash.plan.arrow_types import arrow_type
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type


class OnlySpark(Exception):
    """The reason why this is left to Spark."""


def arrow_type_of(spark_type: str) -> pa.DataType:
    """The Arrow type of a column that is read natively as this Spark type (its `simpleString`).

    Raises:
        OnlySpark: the native core has no such type.
    """
    try:
        return arrow_type(native_type(spark_type, "a column"))
    except Uncovered as reason:
        raise OnlySpark(str(reason)) from None
