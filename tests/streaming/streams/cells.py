"""The matrix that random streams fill: (source, what stands between it and the operator) x (operator, output mode).

Seeds go through all cells in turn, so that as many streams as there are cells have each of them once.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from functools import cache
from itertools import product

FILES = ("parquet", "orc", "json", "csv", "text", "rate")
"""Sources that are in Spark itself; `text` has JSON in its lines, and `rate` is `rate-micro-batch`."""
OTHERS = ("kafka json", "kafka binary", "delta", "delta json")
"""Sources that need a broker, and Delta."""

BETWEEN = (
    "nothing",
    "projections",
    "filter of a key",
    "filter of the time, below the watermark",
    "filter of the time, above the watermark",
    "Python UDF",
    "explode",
    "broadcast join, below the watermark",
    "broadcast join, above the watermark",
    "sort-merge join, below the watermark",
    "sort-merge join, above the watermark",
    "union with another watermark",
    "observe, below the operator",
    "observe, above the operator",
    "current_timestamp",
    "rand(seed)",
)

OPERATORS = (
    ("window", "append"),
    ("window", "update"),
    ("window", "complete"),
    ("window, in Spark's buffers", "append"),
    ("window, in Spark's buffers", "update"),
    ("event time", "append"),
    ("event time", "update"),
    ("session", "append"),
    ("session", "complete"),
    ("keys", "update"),
    ("keys", "complete"),
    ("dropDuplicates", "append"),
    ("dropDuplicates", "update"),
    ("dropDuplicatesWithinWatermark", "append"),
    ("dropDuplicatesWithinWatermark", "update"),
    ("inner join", "append"),
    ("inner join", "update"),
    ("leftouter join", "append"),
    ("rightouter join", "append"),
    ("fullouter join", "append"),
    ("leftsemi join", "append"),
    ("chain", "append"),
    ("chain", "update"),
)
"""Each with an output mode that Spark and pyslash have for it. `event time`: a key is, or it is a window of Spark's."""


@dataclass(frozen=True)
class Cell:
    """What a stream is drawn to prove."""

    source: str
    between: str
    operator: str
    mode: str

    def __str__(self) -> str:
        return f"{self.source} > {self.between} > {self.operator}, {self.mode} mode"


def cells(sources: tuple[str, ...]) -> list[Cell]:
    """All of them."""
    pairs = product(sources, BETWEEN, OPERATORS)
    return [Cell(source, between, *operator) for source, between, operator in pairs]


def cell(seed: int, sources: tuple[str, ...]) -> Cell:
    """The cell of a seed."""
    every = _shuffled(sources)
    return every[seed % len(every)]


@cache
def _shuffled(sources: tuple[str, ...]) -> list[Cell]:
    """So that few seeds already have some of everything."""
    every = cells(sources)
    random.Random("all cells of the matrix").shuffle(every)
    return every


def chosen(variable: str, default: str, sources: tuple[str, ...]) -> range:
    """The seeds that an environment variable asks for: so many, from one to before another (`200:400`), or `all`."""
    asked = os.environ.get(variable, default)
    if asked == "all":
        return range(len(cells(sources)))
    first, _, end = asked.rpartition(":")
    return range(int(first or 0), int(end))
