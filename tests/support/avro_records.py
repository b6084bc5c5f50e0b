"""Random schemas of Avro, and records of them as programs write them, and damaged ones."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

# 1500-01-01, and 2030-01-01, in days.
_OLD, _NEW = -171_664, 21_915
_A_DAY_US = 86_400_000_000
Schema = Any
Write = Callable[[], bytes]


class AvroRecords:
    """One schema of a seed, and what it has records of."""

    def __init__(self, seed: object, *, plain: bool = False) -> None:
        """`plain`: of types, and with values, that native code reads of each record."""
        self._random = random.Random(str(seed))
        self._plain = plain
        self._names = 0
        self._has_blocks = False
        self.fields: list[str] = []
        schema, self._write = self._record(depth=0)
        self.schema = json.dumps(schema)
        self.fields = [field["name"] for field in schema["fields"]]

    def some(self, count: int) -> list[bytes]:
        """Records; unless they are plain, one in five is damaged, and some have bytes behind them."""
        return [self._write() if self._plain else self._damaged(self._write()) for _ in range(count)]

    def _damaged(self, record: bytes) -> bytes:
        random = self._random
        if random.random() < 0.1:
            return record + random.randbytes(3)
        if random.random() < 0.8 or not record:
            return record
        place = random.randrange(len(record))
        if self._has_blocks:  # for as many items as a number says Avro makes room, and with it Spark may end
            return record[:place]
        return random.choice(
            [
                record[:place],
                record[:place] + random.randbytes(1) + record[place + 1 :],
                record[:place] + random.randbytes(2) + record[place:],
            ]
        )

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _type(self, depth: int) -> tuple[Schema, Write]:
        kinds = [self._primitive] * 4 + [self._logical] * 3 + [self._option] * 3 + [self._enum]
        if depth < 3:
            kinds.append(self._record_below(depth))
        if not self._plain:
            kinds += [self._fixed, self._union, self._array_of(depth), self._map_of(depth), self._odd_logical]
        return self._random.choice(kinds)()

    def _record_below(self, depth: int) -> Callable[[], tuple[Schema, Write]]:
        return lambda: self._record(depth + 1)

    def _record(self, depth: int) -> tuple[Schema, Write]:
        made = [self._type(depth) for _ in range(self._random.randrange(1, 7))]
        fields = [{"name": self._name(), "type": schema} for schema, _ in made]
        writes = [write for _, write in made]
        schema = {"type": "record", "name": self._name(), "fields": fields}
        return schema, lambda: b"".join(write() for write in writes)

    def _primitive(self) -> tuple[Schema, Write]:
        random = self._random
        writes: dict[str, Write] = {
            "boolean": lambda: bytes([random.randrange(2)]),
            "int": lambda: long_bytes(self._integer(32)),
            "long": lambda: long_bytes(self._integer(64)),
            "float": lambda: struct.pack("<f", self._real()),
            "double": lambda: struct.pack("<d", self._real()),
            "string": lambda: sized(random.choice(["", "plain", "üñí", "long " * 40]).encode()),
            "bytes": lambda: sized(random.randbytes(random.choice([0, 3, 70]))),
        }
        kind = random.choice([*writes])
        return kind, writes[kind]

    def _logical(self) -> tuple[Schema, Write]:
        random = self._random
        first = 0 if self._plain else _OLD
        digits = random.choice([1, 9, 18])

        def day() -> int:
            return random.randrange(first, _NEW)

        def decimal() -> int:
            return random.randrange(-(10**digits) + 1, 10**digits)

        size = 8 if digits > 9 else 5
        kind, logical, write = random.choice(
            [
                ("int", {"logicalType": "date"}, lambda: long_bytes(day())),
                ("long", {"logicalType": "timestamp-millis"}, lambda: long_bytes(day() * _A_DAY_US // 1000 + 1)),
                ("long", {"logicalType": "timestamp-micros"}, lambda: long_bytes(day() * _A_DAY_US + 1)),
                ("long", {"logicalType": "local-timestamp-millis"}, lambda: long_bytes(day() * _A_DAY_US // 1000 + 1)),
                ("long", {"logicalType": "local-timestamp-micros"}, lambda: long_bytes(self._integer(60))),
                (
                    "bytes",
                    {"logicalType": "decimal", "precision": digits, "scale": digits // 2},
                    lambda: sized(_signed(decimal())),
                ),
                (
                    "fixed",
                    {"logicalType": "decimal", "precision": digits, "scale": 1, "name": self._name(), "size": size},
                    lambda: decimal().to_bytes(size, "big", signed=True),
                ),
            ]
        )
        return {"type": kind, **logical}, write

    def _odd_logical(self) -> tuple[Schema, Write]:
        """Of which native code knows nothing, or which it leaves to Spark."""
        random = self._random
        kind, logical, write = random.choice(
            [
                ("int", {"logicalType": "time-millis"}, lambda: long_bytes(random.randrange(86_400_000))),
                ("string", {"logicalType": "uuid"}, lambda: sized(b"0b7a1d3c-2c4e-4b1a-9a55-000000000000")),
                ("string", {"avro.java.string": "String"}, lambda: sized(b"java")),
                (
                    "bytes",
                    {"logicalType": "decimal", "precision": 30, "scale": 4},
                    lambda: sized(_signed(random.randrange(10**29))),
                ),
                (
                    "bytes",  # with more digits than its precision now and then
                    {"logicalType": "decimal", "precision": 4, "scale": 2},
                    lambda: sized(_signed(random.randrange(-12_000, 12_000))),
                ),
            ]
        )
        return {"type": kind, **logical}, write

    def _option(self) -> tuple[Schema, Write]:
        kinds = [self._primitive, self._logical, self._enum] + ([] if self._plain else [self._odd_logical])
        schema, write = self._random.choice(kinds)()
        null_first = self._random.random() < 0.7

        def written() -> bytes:
            if self._random.random() < 0.3:
                return long_bytes(0 if null_first else 1)
            return long_bytes(1 if null_first else 0) + write()

        return (["null", schema] if null_first else [schema, "null"]), written

    def _union(self) -> tuple[Schema, Write]:
        random = self._random
        types = random.choice([["int", "long"], ["null", "int", "string"], ["double", "float", "null"], ["string"]])
        writes = {
            "null": lambda: b"",
            "int": lambda: long_bytes(self._integer(32)),
            "long": lambda: long_bytes(self._integer(64)),
            "float": lambda: struct.pack("<f", self._real()),
            "double": lambda: struct.pack("<d", self._real()),
            "string": lambda: sized(b"union"),
        }

        def written() -> bytes:
            branch = random.randrange(len(types))
            return long_bytes(branch) + writes[types[branch]]()

        return types, written

    def _enum(self) -> tuple[Schema, Write]:
        symbols = [f"S{'x' * self._random.randrange(30)}{number}" for number in range(self._random.randrange(1, 5))]
        schema = {"type": "enum", "name": self._name(), "symbols": symbols}
        return schema, lambda: long_bytes(self._random.randrange(len(symbols)))

    def _fixed(self) -> tuple[Schema, Write]:
        size = self._random.choice([1, 16])
        return {"type": "fixed", "name": self._name(), "size": size}, lambda: self._random.randbytes(size)

    def _array_of(self, depth: int) -> Callable[[], tuple[Schema, Write]]:
        def made() -> tuple[Schema, Write]:
            items, write = self._type(depth + 2)
            return {"type": "array", "items": items}, lambda: self._blocks(write)

        return made

    def _map_of(self, depth: int) -> Callable[[], tuple[Schema, Write]]:
        def made() -> tuple[Schema, Write]:
            values, write = self._type(depth + 2)
            keys = iter(range(1 << 62))
            return {"type": "map", "values": values}, lambda: self._blocks(
                lambda: sized(f"k{next(keys)}".encode()) + write()
            )

        return made

    def _blocks(self, write: Write) -> bytes:
        """Items in blocks, some of them behind their size."""
        self._has_blocks = True
        blocks = b""
        for _ in range(self._random.randrange(3)):
            items = [write() for _ in range(self._random.randrange(1, 4))]
            data = b"".join(items)
            if self._random.random() < 0.3:
                blocks += long_bytes(-len(items)) + long_bytes(len(data)) + data
            else:
                blocks += long_bytes(len(items)) + data
        return blocks + long_bytes(0)

    def _integer(self, bits: int) -> int:
        half = 1 << (bits - 1)
        return self._random.choice([0, -1, 1, 300, half - 1, -half, self._random.randrange(-half, half)])

    def _real(self) -> float:
        return self._random.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -1e-38, self._random.random()])


def long_bytes(value: int) -> bytes:
    """As Avro writes integers: the sign lowest, seven bits a byte."""
    bits = value << 1 if value >= 0 else (-value << 1) - 1
    written = bytearray()
    while bits >= 0x80:
        written.append(bits & 0x7F | 0x80)
        bits >>= 7
    written.append(bits)
    return bytes(written)


def sized(data: bytes) -> bytes:
    """A string, or bytes: behind their number."""
    return long_bytes(len(data)) + data


def _signed(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
