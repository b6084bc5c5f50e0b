"""Random records of JSON: plain ones, and what is odd about those that programs and people write."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from tests.support.random_values import RandomValues

# What a field of a record may be called; schemas use some of the names.
NAMES = (
    "flag",
    "tiny",
    "small",
    "number",
    "big",
    "real",
    "double",
    "price",
    "day",
    "at",
    "wall",
    "text",
    "deep",
    "list",
)
SCHEMA = (
    "flag boolean, tiny byte, small short, number int, big long, real float, double double, price decimal(10, 2), "
    "day date, at timestamp, wall timestamp_ntz, text string, "
    "deep struct<text: string, number: int, at: timestamp, deeper: struct<big: long, text: string>>, list array<int>"
)

_EDGES = [2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 10**17, 10**18, 10**19, 2**63, 2**64, 10**25, 10**40]
# What is odd in records of any format.
ODD_NUMBERS = [
    "-0", "0", "00", "01", "-01", "1.", ".5", "-.5", "1e5", "1E-3", "1e+2", "1e", "1e400", "-1e400", "1e-400",
    "0e999999999", "1.0", "-0.0", "0.0", "1.5", "-", "+1", "NaN", "Infinity", "-Infinity", "+INF", "-INF", "INF",
    "0x10", "1_000", "1L", "123456789012345678.5", "9007199254740993", "16777217", "16777217.0", "1.0000000596046448",
    "1.17549429E-38", "1e-45", "3.4028235e38", "3.4028236e38", "0.1", "99999999.99", "99999999.994", "99999999.995",
    "100000000", "12.345", "1e2", "1" * 101, "1" * 1001, "0." + "1" * 99, "0." + "3" * 1100, "253402300800",
    "9223372036854", "9223372036855",
]  # fmt: skip
ODD_TIMES = [
    "2020", "2020-01", "2020-1-1", "2020-01-01", "2020-01-01T", "2020-01-01 ", " 2020-01-01", "2020-02-29",
    "2021-02-29", "2020-13-01", "2020-00-10", "2020-01-32", "2020-01-00", "0000-01-01", "0001-01-01", "9999-12-31",
    "10000-01-01", "-0001-01-01", "+2020-01-01", "2020-01-01T1:2:3", "2020-01-01T24:00:00", "2020-01-01T23:60:00",
    "2020-01-01T23:59:60", "2020-01-01t10:00:00", "2020-01-01 10:00:00", "2020-01-01T10:00", "2020-01-01T10",
    "2020-01-01T10:00:00.", "2020-01-01T10:00:00.1", "2020-01-01T10:00:00.1234567", "2020-01-01T10:00:00.123456789",
    "2020-01-01T10:00:00.1234567891", "2020-01-01T10:00:00z", "2020-01-01T10:00:00Z", "2020-01-01T10:00:00 Z",
    "2020-01-01T10:00:00+01:00", "2020-01-01T10:00:00-00:00", "2020-01-01T10:00:00+00:00", "2020-01-01T10:00:00+0100",
    "2020-01-01T10:00:00+1:00", "2020-01-01T10:00:00+18:00", "2020-01-01T10:00:00+17:59", "2020-01-01T10:00:00+18:01",
    "2020-01-01T10:00:00-17:59", "2020-01-01T10:00:00+01:60", "2020-01-01T10:00:00 UTC",
    "2020-01-01T10:00:00Europe/Berlin", "2020-01-01T10:00:00+01", "1500-02-29T00:00:00Z", "1582-10-10T00:00:00Z",
    "1582-10-10", "0001-01-01T00:00:00+17:00", "9999-12-31T23:59:59.999999Z", "2020-03-29T02:30:00",
    "2020-10-25T02:30:00", "12345", "epoch", "now", "T10:00:00", "2020-01-01T10:00:00.5 ", "null",
    "2020-01-01T10-00-00", "2020/01/01", "01.02.2020", "",
]  # fmt: skip
_ODD_TEXTS = [
    r"\u0041", r"\ud83d\ude00", r"\ud83d", r"\ude00", r"\ud83dx", r"\ud83dA", r"\u00", r"\x41", r"\'", "\\",
    r"\u0000", r"a\/b", r"\b\f\n\r\t\"\\", "\x00", "\n", "\t", "\x7f", "ü", "€", "😀", "\ufeff", "\u2028", "'", "",
    " ", "null", "a" * 5000, "ü" * 300, r"\u00fc" * 50, "{", "}", "[1]", ",", ":", "\\u00FC", r"\U0041", r"\0",
]  # fmt: skip
ODD_BYTES = [
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\x80",
    b"\xf0\x80\x80\x80",
    b"\xc3",
]
_JUNK = [
    "",
    " ",
    "null",
    "true",
    "1",
    '"x"',
    "[]",
    "[1]",
    "{",
    "}",
    "{}",
    " {} ",
    "\n{}",
    "{}{}",
    "[{}]",
    "{,}",
    "nul",
    "/**/{}",
]


class Records:
    """Random records, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._values = RandomValues(self._random)

    def some(self, count: int) -> list[bytes]:
        """So many records."""
        return [self.record() for _ in range(count)]

    def plain(self, count: int) -> list[bytes]:
        """So many as they are meant to be."""
        return [self._object(NAMES, 0).encode() for _ in range(count)]

    def record(self) -> bytes:
        """One record: every other one as it is meant to be."""
        chance = self._random.random()
        if chance < 0.02:
            return self._random.choice(_JUNK).encode()
        oddity = 0.0 if chance < 0.5 else 0.08
        text = self._object(NAMES, oddity).encode("utf-8", "surrogatepass")
        return self._damaged(text) if chance > 0.8 else text

    def _object(self, names: tuple[str, ...], oddity: float) -> str:
        space = (
            (lambda: self._random.choice(["", "", " ", "\n", "\t\r "])) if self._random.random() < 0.3 else (lambda: "")
        )
        chosen = [name for name in names if self._random.random() < 0.8]
        if self._random.random() < 0.3:
            self._random.shuffle(chosen)
        if oddity and self._random.random() < 0.1 and chosen:
            chosen.append(self._random.choice(chosen))  # twice
        members = [f'{space()}"{name}"{space()}:{space()}{self._value(name, oddity)}{space()}' for name in chosen]
        for _ in range(self._random.choice([0, 0, 1, 2])):
            member = (
                f'"{self._random.choice(["x", "extra", "Text", "TEXT", "nümber", ""])}":{self._anything(0, oddity)}'
            )
            members.insert(self._random.randrange(len(members) + 1), member)
        return space() + "{" + ",".join(members) + (space() if not members else "") + "}" + space()

    def _value(self, name: str, oddity: float) -> str:
        chance = self._random.random()
        if chance < 0.03:
            return "null"
        if chance < 0.03 + oddity:
            return self._anything(0, oddity)
        if name == "deep":
            return self._object(("text", "number", "at", "deeper"), oddity)
        if name == "deeper":
            return self._object(("big", "text"), oddity)
        return self._plain()[name]()

    def _plain(self) -> dict[str, Callable[[], str]]:
        draw = self._random
        return {
            **self._values.numbers(),
            "flag": lambda: draw.choice(["true", "false"]),
            "day": lambda: f'"{self._values.date()}"',
            "at": lambda: f'"{self._values.date()}T{self._values.clock()}{draw.choice(["Z", "", "+02:00", "-07:30"])}"',
            "wall": lambda: f'"{self._values.date()} {self._values.clock()}"',
            "text": lambda: json.dumps(self._text(), ensure_ascii=draw.random() < 0.5),
            "list": lambda: "[]" if draw.random() < 0.3 else "null",
        }

    def _text(self) -> str:
        alphabet = 'abcdefghijklmnop \\"/\n\täüß€漢字😀'
        return "".join(self._random.choices(alphabet, k=self._random.choice([0, 3, 7, 8, 9, 16, 40])))

    def _anything(self, depth: int, oddity: float) -> str:
        """A value of any type: with an oddity of 0 one that JSON allows."""
        draw = self._random
        kind = draw.randrange(8 if depth < 3 else 6)
        if kind == 0:
            return draw.choice(["null", "true", "false"] + (["True", "nul", "truex", "NULL"] if oddity else []))
        if kind == 1 and oddity:
            return draw.choice(ODD_NUMBERS)
        if kind in (1, 2):
            edge = draw.choice(_EDGES) + draw.randint(-2, 2)
            return str(draw.choice([edge, -edge, draw.randint(-200, 200), draw.uniform(-1e3, 1e3)]))
        if kind == 3 and oddity:
            return f'"{draw.choice(_ODD_TEXTS)}"'
        if kind == 4:
            return json.dumps(draw.choice(ODD_TIMES))
        if kind in (3, 5):
            return json.dumps(self._text())
        if kind == 6:
            if oddity and draw.random() < 0.05:
                deep = draw.choice([30, 70, 999, 1001])
                return "[" * deep + "]" * deep
            return "[" + ",".join(self._anything(depth + 1, oddity) for _ in range(draw.randrange(4))) + "]"
        names = ["a", "b", "text", "number", "\\u0061" if oddity else "c"]
        members = [f'"{draw.choice(names)}":{self._anything(depth + 1, oddity)}' for _ in range(draw.randrange(4))]
        return "{" + ",".join(members) + "}"

    def _damaged(self, text: bytes) -> bytes:
        draw = self._random
        at = draw.randrange(len(text) + 1)
        kind = draw.randrange(10)
        if kind == 0:
            return text[:at]
        if kind == 1:
            return text + draw.choice([b"x", b"{}", b" 1", b",", b"}", b"\x00", text])
        if kind == 2:
            return text[:at] + draw.choice(ODD_BYTES) + text[at:]
        if kind == 3:
            return text[:at] + bytes([draw.randrange(256)]) + text[at + 1 :]
        if kind == 4:
            return text[:at] + text[at + 1 :]
        if kind == 5:
            return b"\xef\xbb\xbf" + text
        if kind == 6:
            return text.replace(b'"', b"'", draw.choice([2, 4, -1]))
        if kind == 7:
            return text.replace(b",", draw.choice([b",,", b";", b" , /* */ ", b",\n"]), 1)
        if kind == 8:
            return text.replace(b'"text"', draw.choice([b"text", b'"te\\u0078t"', b'"text "', b'"TEXT"']), 1)
        return text[:at] + draw.choice('{}[]:,"\\ntf0-. ').encode() + text[at:]
