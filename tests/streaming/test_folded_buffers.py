"""Buffers of Spark's own code in groups that no watermark ends, against plain Spark's micro-batches."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.driver.start import hook
from pyslash.operators.base import EpochInputs
from pyslash.operators.buffer_folding import BufferFolding
from pyslash.state.receipt import Receipt
from tests.streaming.test_buffers import SCHEMA, rows_of
from tests.support.ran import Query, ran
from tests.support.stream import Stream

CALLS = [
    "sort_array(collect_list(i))",
    "array_sort(collect_set(s) FILTER (WHERE i > 0))",
    "percentile(i, 0.25)",
    "approx_percentile(d, array(0.1, 0.5), 100)",
    "approx_count_distinct(i, 0.002)",
    "listagg(s, ',') WITHIN GROUP (ORDER BY s DESC)",
    "mode(s, true)",
    "bitmap_count(bitmap_construct_agg(bitmap_bit_position(abs(i))))",
    "hll_sketch_estimate(hll_sketch_agg(i))",
    "count(*)",
    "sum(i)",
    "max(struct(i, s))",
    "max(k)",
]


def query_of(keys: list[str]) -> Query:
    def query(rows: DataFrame) -> DataFrame:
        aggregates = [F.expr(call).alias(f"a{place}") for place, call in enumerate(CALLS)]
        return rows.groupBy(*map(F.expr, keys)).agg(*aggregates)

    return query


SHAPES: dict[str, tuple[list[str], str]] = {
    "by key": (["k"], "update"),
    "all rows": ([], "update"),
    "by key and array, complete": (["k", "a"], "complete"),
    "windows, complete": (["window(ts, '10 seconds', '10 seconds', '3 seconds')", "s"], "complete"),
}


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Gets the epochs whose folding has written something."""
    written: set[int] = set()
    fold = BufferFolding.fold

    def told(self: BufferFolding, inputs: EpochInputs) -> list[Receipt]:
        receipts = fold(self, inputs)
        written.update(inputs.epoch for receipt in receipts if receipt.head.length)
        return receipts

    monkeypatch.setattr(BufferFolding, "fold", told)
    return written


def rows_of_few_groups(generator: random.Random, batch: int) -> pa.Table:
    """Of some keys in some batches only: a group whose buffers are folded need have no rows."""
    rows = rows_of(generator, batch, 30)
    keys = pa.array([generator.choice((None, -0.0, 1.0 + batch % 4)) for _ in range(rows.num_rows)], pa.float64())
    return rows.set_column(1, SCHEMA.field("k"), keys)


@pytest.mark.parametrize(
    ("shape", "conf"),
    [
        ("by key", {"ingest": "rows"}),
        ("by key", {"ingest": "rows", "merge.driverBytes": "0", "transport": "tcp"}),
        ("by key", {"ingest": "rows", "strategy": "repartition"}),
        ("all rows", {"merge.driverBytes": "0"}),
        ("by key and array, complete", {"merge.driverBytes": "0"}),
        ("windows, complete", {}),
    ],
)
def test_micro_batches_are_sparks(
    spark: SparkSession, tmp_path: Path, folded: set[int], shape: str, conf: dict[str, str]
) -> None:
    """In two starts of the query, the second from the checkpoint alone."""
    keys, output = SHAPES[shape]
    query, generator = query_of(keys), random.Random(11)
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=5)
    results: dict[str, list[Any]] = {"off": [], "require": []}
    for batches in (range(3), range(3, 5)):
        for batch in batches:
            stream.add(rows_of_few_groups(generator, batch))
        for mode, found in results.items():
            ran(stream.read(), tmp_path, query, output, mode, found, **{"buffers.foldEpochs": "2"}, **conf)
        hook._sweep()
    assert folded
    assert sum(map(len, results["off"])) > 4
    assert results["require"] == results["off"]
