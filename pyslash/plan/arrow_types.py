"""The Arrow types of the native core's types."""

from __future__ import annotations

import pyarrow as pa

_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def arrow_type(native: str) -> pa.DataType:
    """The Arrow type of a native type's name.

    >>> arrow_type("int64"), arrow_type("decimal(10,2)")
    (DataType(int64), Decimal128Type(decimal128(10, 2)))
    """
    if native.startswith("decimal("):
        precision, scale = native.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TYPES[native]
