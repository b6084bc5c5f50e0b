"""Random lines of CSV: plain ones, and what is odd about those that programs and people write."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.json_records import ODD_BYTES, ODD_NUMBERS, ODD_TIMES
from tests.support.random_values import RandomValues

# The columns of the files, in their order.
COLUMNS = {
    "flag": "boolean",
    "tiny": "byte",
    "small": "short",
    "number": "int",
    "text": "string",
    "big": "long",
    "real": "float",
    "double": "double",
    "price": "decimal(10, 2)",
    "wide": "decimal(30, 4)",
    "day": "date",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "raw": "binary",
    "other": "string",
}
SCHEMA = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())

_EDGES = [2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 10**17, 10**18, 10**19, 2**63, 2**64, 10**25, 10**40]
_ODD = [
    *ODD_NUMBERS, *ODD_TIMES, "True", "FALSE", "tRuE", "t", "yes", "truex", "1,000", "1d", "1f", "0x1p3", "+5",
    " 5", "5 ", " ", "  ", "\t", "NA", "null", "NULL", "Inf", "-Inf", "\\", "\\\\", "a\\", "\\n", "#", "#5", "'", "''",
    "\x00", "\x01", "ü", "😀", "\u2028", "\u0661", "a" * 5000, "ü" * 300,
]  # fmt: skip
_QUOTES = [
    '"', '""', '"""', '""""', 'a"b', '"a"b', '"a" ', ' "a"', '"a', 'a"', '"a""b"', '"a\\"b"', '"a\\\\"', '"\\"',
    '"a\\b"', '"a,b"', '","', '",', '" "', '"NA"', '"5"', '"true"', '"ü"', '"a\tb"', '"a;b"', '" a "', '"a"\t',
    '"a"x"b"', '"\\,"',
]  # fmt: skip
_LINES = [
    "",
    " ",
    "\t",
    " \t ",
    ",",
    ",,",
    '"',
    '""',
    ",,,,,,,,,,,,,,",
    ",,,,,,,,,,,,,,,",
    "\x00",
    "\x00,1",
    "x",
    "1,2,3",
]


class Records:
    """Random lines, the same for the same seed, without what ends them."""

    def __init__(self, seed: int | str, separator: str = ",") -> None:
        self._random = random.Random(seed)
        self._values = RandomValues(self._random)
        self._separator = separator

    def some(self, count: int) -> list[bytes]:
        """So many lines."""
        return [self.record() for _ in range(count)]

    def plain(self, count: int) -> list[bytes]:
        """So many as programs write them."""
        return [self._line(0.0) for _ in range(count)]

    def record(self) -> bytes:
        """One line: every other one as it is meant to be."""
        chance = self._random.random()
        if chance < 0.02:
            return self._random.choice(_LINES).replace(",", self._separator).encode()
        line = self._line(0.0 if chance < 0.5 else 0.04)
        return self._damaged(line) if chance > 0.85 else line

    def _line(self, oddity: float) -> bytes:
        fields = [self._field(name, oddity) for name in COLUMNS]
        if oddity and self._random.random() < 0.1:
            fields = fields[: self._random.randrange(len(fields))]
        if oddity and self._random.random() < 0.1:
            fields += [self._random.choice(["", "x", *_QUOTES]) for _ in range(self._random.randrange(1, 4))]
        return self._separator.join(fields).encode("utf-8", "surrogatepass")

    def _field(self, name: str, oddity: float) -> str:
        draw = self._random
        chance = draw.random()
        if chance < 0.05:
            return draw.choice(["", "", '""'])
        if chance < 0.05 + oddity:
            if draw.random() < 0.4:
                return draw.choice(_QUOTES)
            odd = draw.choice(_ODD)
            return f'"{odd}"' if draw.random() < 0.2 else odd
        if chance < 0.05 + 2 * oddity:
            edge = draw.choice(_EDGES) + draw.randint(-2, 2)
            return str(draw.choice([edge, -edge, draw.uniform(-1e3, 1e3)]))
        value = self._plain()[name]()
        return f'"{value}"' if self._separator in value or draw.random() < 0.05 else value

    def _plain(self) -> dict[str, Callable[[], str]]:
        draw = self._random
        return {
            **self._values.numbers(),
            "flag": lambda: draw.choice(["true", "false", "True", "FALSE"]),
            "text": self._text,
            "wide": lambda: "",
            "day": self._values.date,
            "at": lambda: f"{self._values.date()}T{self._values.clock()}{draw.choice(['Z', '', '+02:00', '-07:30'])}",
            "wall": lambda: f"{self._values.date()} {self._values.clock()}",
            "raw": lambda: "",
            "other": self._text,
        }

    def _text(self) -> str:
        alphabet = "abcdefghijklmnop ';/\täüß€漢字😀" + self._separator
        return "".join(self._random.choices(alphabet, k=self._random.choice([1, 3, 7, 8, 9, 16, 40])))

    def _damaged(self, line: bytes) -> bytes:
        draw = self._random
        at = draw.randrange(len(line) + 1)
        kind = draw.randrange(6)
        if kind == 0:
            return line[:at]
        if kind == 1:
            return line + draw.choice([b",", b'"', b",x", b"\x00", b"\\", b" "])
        if kind == 2:
            return line[:at] + draw.choice(ODD_BYTES) + line[at:]
        if kind == 3:
            return line[:at] + bytes([draw.randrange(256)]) + line[at + 1 :]
        if kind == 4:
            return line[:at] + line[at + 1 :]
        return line[:at] + draw.choice('",\\" \t0-.#\x00').encode() + line[at:]
