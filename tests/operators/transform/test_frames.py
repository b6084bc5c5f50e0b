"""Frames that are cut out of a batch, and results that are converted together, against each by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkTypeError
from pyspark.sql.types import StructType

from tests.support.processors import COVERED, WHY_NOT

if not COVERED:
    pytest.skip(WHY_NOT, allow_module_level=True)

from pyslash.operators.transform import frames as made
from pyslash.operators.transform import function
from pyslash.operators.transform.frame_conf import UNLIMITED, FrameConf
from pyslash.operators.transform.frames import FrameCalls, FrameForm
from pyslash.operators.transform.function import UserFunction
from pyslash.operators.transform.group_state import GroupStateCalls
from pyslash.operators.transform.rows import Given, InputShape
from tests.operators.transform.test_rows import streams_in
from tests.support.frames import tell

FUNCTION = UserFunction(b"", function.FRAMES, (), "", "", "")
CONF = FrameConf(
    most_rows=UNLIMITED,
    most_bytes=UNLIMITED,
    time_zone="America/Los_Angeles",
    integers_with_nulls=False,
    by_name=True,
    safely=False,
    integers_as_decimals=False,
    large_types=False,
)
GIVEN = StructType().add("n", "long").add("s", "string").add("d", "double")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [-1, 2]),
    "number": (pa.int32(), [7, 8]),
    "long": (pa.int64(), [1 << 40, -(1 << 62)]),
    "single": (pa.float32(), [0.1, float("nan")]),
    "double": (pa.float64(), [0.1, float("nan"), -0.0]),
    "whether": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [date(2026, 1, 2), date(1, 1, 1)]),
    "at": (pa.timestamp("us", "America/Los_Angeles"), [datetime(2026, 7, 1, 3, 4, 5, 6, UTC)]),
    "local": (pa.timestamp("us"), [datetime(1970, 1, 1), datetime(2026, 11, 1, 1, 30)]),
    "two words": (pa.string(), ["x", ""]),
    "raw": (pa.binary(), [b"", b"\xff"]),
    "price": (pa.decimal128(10, 2), [Decimal("1.50")]),
    "listed": (pa.list_(pa.int32()), [[1, 2], [], [None]]),
}
PLAIN = [name for name in VALUES if name not in ("price", "listed")]


def batch_of(generator: random.Random, names: list[str], nulls: float, rows: int = 40) -> pa.RecordBatch:
    """A batch whose first column has few keys, next to each other."""
    keys = sorted(generator.choice("abcdefgh") for _ in range(rows))
    columns = [pa.array(keys)]
    for name in names:
        kind, values = VALUES[name]
        drawn = [None if generator.random() < nulls else generator.choice(values) for _ in range(rows)]
        columns.append(pa.array(drawn, kind))
    return pa.record_batch(columns, names=["k", *names])


def drawn(seed: int) -> tuple[random.Random, list[pa.RecordBatch], InputShape]:
    """Batches of some columns, with many nulls, few or none; one may have more of a key than the one before."""
    generator = random.Random(seed)
    names = generator.sample(PLAIN if seed % 3 else [*VALUES], generator.randrange(1, 6))
    batches = [batch_of(generator, names, generator.choice((0, 0, 0.1, 0.6))) for _ in range(2)]
    values = tuple(generator.sample(range(len(names) + 1), len(names)))
    return generator, batches, InputShape((0,), values, None, 0, False)


@pytest.mark.parametrize("most_rows", [7, UNLIMITED])
@pytest.mark.parametrize("seed", range(12))
def test_a_processors_frames_are_as_if_made_of_rows(seed: int, most_rows: int) -> None:
    _, batches, shape = drawn(seed)
    form = FrameForm(replaced(most_rows), GIVEN)

    def by_rows() -> Iterator[tuple[Any, pd.DataFrame]]:
        def rows() -> Iterator[Any]:
            for batch in form.cut(batches):
                yield from pd.concat(form.series(batch), axis=1).itertuples(index=False)

        for key, group in groupby(rows(), key=lambda row: (row[0],)):
            each = list(group)
            for start in range(0, len(each), most_rows):
                yield key, pd.DataFrame(each[start : start + most_rows]).iloc[:, list(shape.values)]

    calls = FrameCalls(FUNCTION, {}, shape, form)
    found = [(key, frame) for key, frames in calls.groups(iter(batches)) for frame in frames]
    assert [tell()(*one) for one in found] == [tell()(*one) for one in by_rows()]


@pytest.mark.parametrize("most_rows", [7, UNLIMITED])
@pytest.mark.parametrize("seed", range(12))
def test_frames_of_groups_are_as_if_converted_alone(seed: int, most_rows: int) -> None:
    _, batches, shape = drawn(seed)
    form = FrameForm(replaced(most_rows), GIVEN)
    keys = (0, len(batches[0].columns) - 1)
    if VALUES[batches[0].schema.names[-1]][0] in (pa.float32(), pa.float64(), VALUES["listed"][0], VALUES["price"][0]):
        keys = (0,)  # others are no keys
    shape = InputShape(keys, shape.values, None, 0, False)
    calls = GroupStateCalls(b"", StructType(), shape, batches[0].schema, form, "None")
    for key, part in calls._parts(iter(batches), lambda key: key):
        alone = form.series(part.batch._batch.slice(part.start, part.end - part.start))
        expected = pd.concat([alone[at] for at in shape.values], axis=1)
        assert tell()(part.key(), part.frame()) == tell()(tuple(alone[at][0] for at in keys), expected)
        rows = part.batch._batch.slice(part.start, part.end - part.start).select(list(keys)).to_pylist()
        assert all(tuple(row.values()) == key for row in rows)


def replaced(most_rows: int) -> FrameConf:
    return FrameConf(**{**vars(CONF), "most_rows": most_rows})


FRAMES = [
    {"n": [1], "s": ["a"], "d": [0.5]},
    {"s": ["b", None], "d": [0.5, 1.5], "n": [(1 << 62) + 1, 2]},
    {"n": [None, 3], "s": [None, "c"], "d": [float("nan"), None]},
    {"n": [1.0], "s": ["d"], "d": [2]},
    {"n": [2.0], "s": [None], "d": [None]},
    {"n": ["4"], "s": ["of a number in words"], "d": [2.5]},
    {"n": [True], "s": ["e"], "d": [2.5]},
    {"n": pd.Series([2.5], dtype=object), "s": ["f"], "d": [2.5]},
]


DRAWN = [random.Random(seed).choices(range(len(FRAMES)), k=30) for seed in range(5)]


@pytest.mark.parametrize("places", [*DRAWN, [1, 2], [0, 0, 1], [5, -1]])
def test_results_are_the_same_together_and_alone(places: list[int]) -> None:
    """As floating-point numbers, or guessed to be what those beside them are, some would be others."""
    frames = [pd.DataFrame(FRAMES[at]) for at in places] + [pd.DataFrame(FRAMES[0]).iloc[:0]]
    form, alone, together = FrameForm(CONF, GIVEN), Given(GIVEN), Given(GIVEN)
    for frame in frames:
        alone.add(form.arrow(frame))
    calls = FrameCalls(FUNCTION, {}, InputShape((), (), None, 0, False), form)
    calls.take(iter(frames), together)
    calls._together.convert(together)
    assert read(together) == read(alone)
    assert together.rows == sum(map(len, frames))


def test_the_first_that_cannot_be_converted_is_what_fails() -> None:
    form, given = FrameForm(CONF, GIVEN), Given(GIVEN)
    frames = [pd.DataFrame({"n": [1], "s": [text], "d": [0.5]}) for text in ("a", object(), 1.5)]
    with pytest.raises(PySparkTypeError) as alone:
        form.arrow(frames[1])
    calls = FrameCalls(FUNCTION, {}, InputShape((), (), None, 0, False), form)

    def take_all() -> None:
        calls.take(iter(frames), given)
        calls._together.convert(given)

    with pytest.raises(PySparkTypeError) as together:
        take_all()
    assert str(together.value) == str(alone.value)


def test_frames_without_rows_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor may give one for each key that it has nothing to tell of."""
    monkeypatch.setattr(made, "_TOGETHER", 10)
    calls = FrameCalls(FUNCTION, {}, InputShape((), (), None, 0, False), FrameForm(CONF, GIVEN))
    calls.take(iter([pd.DataFrame()] * 25), Given(GIVEN))
    assert len(calls._together._frames) == 5


def read(given: Given) -> list[dict[str, Any]]:
    """Its rows, in words: a NaN is not itself."""
    return [str(row) for value in given.packed() for rows in streams_in(value) for row in rows.to_pylist()]
