"""Random values as programs write them, in records of text of any format."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable


class RandomValues:
    """Texts of values, by a source of chance."""

    def __init__(self, draw: random.Random) -> None:
        self._random = draw

    def numbers(self) -> dict[str, Callable[[], str]]:
        """What makes a number, by the name of its column."""
        draw = self._random
        return {
            "tiny": lambda: str(draw.randint(-128, 127)),
            "small": lambda: str(draw.randint(-(2**15), 2**15 - 1)),
            "number": lambda: str(draw.randint(-(2**31), 2**31 - 1)),
            "big": lambda: str(draw.randint(-(10 ** draw.randint(1, 18)) + 1, 10 ** draw.randint(1, 18) - 1)),
            "real": lambda: repr(struct.unpack("f", struct.pack("f", draw.uniform(-1000, 1000)))[0]),
            "double": lambda: draw.choice(
                [repr(draw.uniform(-1e6, 1e6)), repr(10 ** draw.uniform(-300, 300)), "0", "7"]
            ),
            "price": lambda: draw.choice([f"{draw.uniform(-1e4, 1e4):.2f}", f"{draw.uniform(0, 1e4):.1f}", "12", "-7"]),
        }

    def date(self) -> str:
        """YYYY-MM-DD."""
        draw = self._random
        return f"{draw.randint(1890, 2100):04d}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"

    def clock(self) -> str:
        """hh:mm:ss, with a fraction or without one."""
        draw = self._random
        fraction = "." + "".join(draw.choices("0123456789", k=draw.randint(1, 9))) if draw.random() < 0.6 else ""
        return f"{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}:{draw.randint(0, 59):02d}{fraction}"
