"""Random tables x random queries x random splits into micro-batches give the rows that Spark batch gives.

`PYSLASH_STREAMS` sets how many of them on each path.
"""

from __future__ import annotations

import os
import random
import tempfile
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.streaming.stream import Stream, differences, run, seconds

STREAMS = int(os.environ.get("PYSLASH_STREAMS", "5"))
NAN, INF = float("nan"), float("inf")

# Column type -> values to draw from; each column is nullable.
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, -1, 0, 1, 127]),
    "short": (pa.int16(), [-32768, 0, 7, 32767]),
    "int": (pa.int32(), [-(2**31), -1, 0, 5, 2**31 - 1]),
    "long": (pa.int64(), [-(2**50), -1, 0, 42, 2**50]),
    "float": (pa.float32(), [-0.0, 0.0, 1.5, -2.25, NAN, INF]),
    "double": (pa.float64(), [-0.0, 0.0, 1.5, -1e100, NAN, 0.1]),
    "date": (pa.date32(), [date(1969, 12, 31), date(2013, 1, 1), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [seconds(-1), seconds(0), seconds(1e9)]),
    "ntz": (pa.timestamp("us"), [datetime(1960, 1, 1), datetime(2000, 2, 29, 1, 2, 3, 4)]),
    "small": (pa.decimal128(10, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("99999999.99")]),
    "large": (pa.decimal128(30, 5), [Decimal("-123456789012345678901.12345"), Decimal("0.00001"), Decimal("7.00000")]),
    "string": (pa.string(), ["", "a", "ab", "a" * 40, "é", "zz"]),
    "binary": (pa.binary(), [b"", b"\x00", b"\x00\x01", b"\xff" * 20]),
}
SUMMABLE = ("byte", "short", "int", "long", "float", "double", "small", "large")
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC"))]
    + [(f"k_{name}", kind) for name, (kind, _) in POOLS.items()]
    + [(f"v_{name}", kind) for name, (kind, _) in POOLS.items()]
)

aggregates = st.one_of(
    st.just("count(*)"),
    st.sampled_from([*POOLS]).map(lambda name: f"count(v_{name})"),
    st.builds("{}(v_{})".format, st.sampled_from(["sum", "avg"]), st.sampled_from(SUMMABLE)),
    st.builds("{}(v_{})".format, st.sampled_from(["min", "max"]), st.sampled_from([*POOLS])),
)
sizes_and_slides = st.sampled_from([(10, 10, 0), (10, 5, 0), (10, 4, 1), (7, 7, 3), (12, 1, 0)])


def table(rng: random.Random, rows: int, around: float, nulls: float) -> pa.Table:
    """Rows with event times around a moment, a few of them much too early."""
    columns: dict[str, list[Any]] = {"ts": []}
    for _ in range(rows):
        late = rng.random() < 0.1
        columns["ts"].append(
            None if rng.random() < nulls / 4 else seconds(around + rng.uniform(-60 if late else -8, 8))
        )
    for name in SCHEMA.names[1:]:
        values = POOLS[name[2:]][1]
        hot = rng.choice(values)
        columns[name] = [
            None if rng.random() < nulls else hot if rng.random() < 0.3 else rng.choice(values) for _ in range(rows)
        ]
    return pa.table(columns, SCHEMA)


@pytest.mark.timeout(300 + 60 * STREAMS)
@pytest.mark.parametrize(
    ("ingest", "emit", "strategy"),
    [
        ("files", "columns", "merge"),
        ("rows", "arrow", "merge"),
        ("arrow", "", "merge"),
        ("rows", "columns", "repartition"),
        ("files", "", "repartition"),
    ],
)
@settings(
    max_examples=STREAMS,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_random_streams(spark: SparkSession, ingest: str, emit: str, strategy: str, data: st.DataObject) -> None:
    # No `emit`: what is as small as here is merged by the driver.
    conf = {"ingest": ingest, "strategy": strategy, **({"emit": emit, "merge.driverBytes": "0"} if emit else {})}
    rng = random.Random(data.draw(st.integers(0, 2**32), label="seed"))
    nulls = data.draw(st.sampled_from([0.0, 0.2, 0.9]), label="share of nulls")
    keys = data.draw(st.lists(st.sampled_from([*POOLS]), max_size=3, unique=True), label="keys")
    calls = data.draw(st.lists(aggregates, min_size=1, max_size=5, unique=True), label="aggregates")
    size, slide, offset = data.draw(sizes_and_slides, label="window")
    batch_rows = data.draw(st.lists(st.sampled_from([0, 1, 7, 60]), min_size=1, max_size=3), label="rows of batches")
    window = F.window("ts", f"{size} seconds", f"{slide} seconds", f"{offset} seconds")
    with tempfile.TemporaryDirectory() as folder:
        stream = Stream(spark, Path(folder), SCHEMA, delay_seconds=3)
        for index, rows in enumerate(batch_rows):
            stream.add(table(rng, rows, 1000 + 9.5 * index, nulls))
        stream.add(table(rng, 1, 100_000, 0.0))  # moves the watermark past every window before it
        grouping = [F.col(f"k_{name}") for name in keys]
        calls_as_columns = [F.expr(call) for call in calls]
        outcome = run(stream.read().groupBy(window, *grouping).agg(*calls_as_columns), Path(folder), **conf)
        expected = stream.oracle(window, grouping, calls_as_columns).collect()
    assert list(differences(outcome.rows, expected, len(keys))) == []
    assert [figures["ingest"] for figures in outcome.progress] == [ingest] * len(stream.batches)
    assert {figures["emit"] for figures in outcome.progress if figures["windows"]} <= {emit}
    # Spark filters rows without an event time before they are counted, unless the slide does not divide the size.
    counted = sum(figures["rows"] for figures in outcome.progress)
    total = sum(len(rows) for rows in stream.batches)
    assert total - sum(rows["ts"].null_count for rows in stream.batches) <= counted <= total
