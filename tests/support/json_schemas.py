"""Random schemas of JSON, and records of them: columns of all types, few and many, whatever they are called."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from tests.support.json_records import ODD_NUMBERS, ODD_TIMES
from tests.support.random_values import RandomValues

_NAMES = ["a", "b", "ü", "a.b", "x y", "q`t", 'a"b', "n" * 70, "_corrupt_record", "number", "text"]
_WHOLE = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}  # bits
_READ = [*_WHOLE, "float", "double", "decimal", "boolean", "date", "timestamp", "timestamp_ntz", "string"]
_RARE = ["binary", "variant", "interval year to month", "interval day to second", "void", "string collate UTF8_LCASE"]

# A type as Spark writes it, and what makes values of it.
Type = tuple[str, Callable[[], str]]


class RandomSchema:
    """One schema of a seed, and what it has records of."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(str(seed))
        self._values = RandomValues(self._random)
        self._oddity = self._random.choice([0.0, 0.02, 0.06])
        count = self._random.choice([2, 4, 4, 9, 70])
        self._has_rare = count < 9
        self._text, self._record = self._fields(count, depth=0, sign=" ")

    @property
    def text(self) -> str:
        """As Spark's data types are written."""
        return self._text

    def records(self, count: int) -> list[bytes]:
        """So many."""
        return [self._record().encode() for _ in range(count)]

    def _fields(self, count: int, depth: int, sign: str) -> tuple[str, Callable[[], str]]:
        draw = self._random
        named = draw.sample(_NAMES, min(count, len(_NAMES))) + [f"c{number}" for number in range(count - len(_NAMES))]
        names = [name for name in named if depth or name != "_corrupt_record"] or ["a"]
        types = {name: self._type(depth) for name in names}
        text = ", ".join(f"`{name.replace('`', '``')}`{sign}{kind}" for name, (kind, _) in types.items())
        return text, lambda: self._object({name: write for name, (_, write) in types.items()})

    def _object(self, members: dict[str, Callable[[], str]]) -> str:
        draw = self._random
        space = draw.choice(["", "", " ", "\t"])
        names = [name for name in members if draw.random() < 0.85]
        if draw.random() < 0.3:
            draw.shuffle(names)
        written = [f"{json.dumps(name, ensure_ascii=False)}{space}:{space}{members[name]()}" for name in names]
        if draw.random() < 0.2:
            written.append(
                draw.choice(['"other": {"a": [1, {"b": "}"}]}', '"A": 1', '"_corrupt_record": "x"', '"": null'])
            )
        return space + "{" + f",{space}".join(written) + "}"

    def _type(self, depth: int) -> Type:
        draw = self._random
        if depth < 3 and draw.random() < 0.12:
            text, write = self._fields(draw.choice([1, 2, 5]), depth + 1, sign=": ")
            return f"struct<{text}>", self._value(write)
        if depth < 3 and draw.random() < 0.06:
            inner, write = self._type(depth + 1)
            if draw.random() < 0.5:
                return f"array<{inner}>", self._value(
                    lambda: f"[{', '.join(write() for _ in range(draw.randrange(3)))}]"
                )
            return f"map<string, {inner}>", self._value(lambda: self._object({"k": write, "l": write}))
        if self._has_rare and draw.random() < 0.3:
            kind = draw.choice(_RARE)
            return kind, self._value(lambda: self._plain(kind), nulls=0.7)  # native code reads that and no more
        kind = draw.choice(_READ)
        if kind == "decimal":
            digits = draw.choice([1, 5, 9, 17, 18, 19, 38])
            scale = draw.choice([0, min(2, digits), digits])
            return f"decimal({digits}, {scale})", self._value(lambda: self._decimal(digits - scale, scale))
        return kind, self._value(lambda: self._plain(kind))

    def _value(self, write: Callable[[], str], nulls: float = 0.06) -> Callable[[], str]:
        """Null now and then, or of another type."""

        def value() -> str:
            chance = self._random.random()
            if chance < nulls:
                return "null"
            return self._odd() if chance < nulls + self._oddity else write()

        return value

    def _odd(self) -> str:
        draw = self._random
        odd = draw.choice([draw.choice(ODD_NUMBERS), json.dumps(draw.choice(ODD_TIMES))])
        return draw.choice([odd, odd, "true", '"true"', '"1"', '""', "{}", "[]", '{"a": 1}', "[1]", r'"\ud800"'])

    def _decimal(self, whole: int, scale: int) -> str:
        draw = self._random
        number = f"{draw.choice(['', '-'])}{draw.randrange(10 ** draw.randint(0, whole))}"
        places = draw.choice([0, scale, max(scale - 1, 0)])
        return f"{number}.{''.join(draw.choices('0123456789', k=places))}" if places else number

    def _plain(self, kind: str) -> str:
        draw = self._random
        if kind in _WHOLE:
            bits = _WHOLE[kind]
            return str(draw.randrange(-(2**bits), 2**bits) >> draw.randrange(bits))
        if kind in ("float", "double"):
            return draw.choice([repr(draw.uniform(-10, 10)), str(draw.randrange(10 ** draw.randint(1, 18))), "1.5e-3"])
        if kind == "boolean":
            return draw.choice(["true", "false"])
        if kind == "date":
            return f'"{self._values.date()}"'
        if kind.startswith("timestamp"):
            zone = draw.choice(["", "", "Z", "+02:00", "-07:30"])
            return f'"{self._values.date()}{draw.choice("T ")}{self._values.clock()}{zone}"'
        if kind == "interval year to month":
            return "\"INTERVAL '1-2' YEAR TO MONTH\""
        return json.dumps("".join(draw.choices('ab é€😀\\"\n', k=draw.randrange(12))), ensure_ascii=draw.random() < 0.5)
