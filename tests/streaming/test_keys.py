"""Keys of types that only Spark knows, grouped by the bytes that Spark compares, against plain Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.ran import Query, ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("i", pa.int32()), ("d", pa.float64()), ("s", pa.string())])
KEYS = {
    "struct": "struct(i, s)",
    "nullable struct": "if(i > 0, named_struct('a', s, 'b', array(d)), NULL)",
    "array": "if(s = 'a', NULL, array(d, i))",
    "map": "map(coalesce(s, ''), d, 'x', i)",
    "interval": "make_dt_interval(0, i)",
}


def made(spark: SparkSession, folder: Path) -> Stream:
    stream = Stream(spark, folder, SCHEMA, delay_seconds=5)
    generator = random.Random(4)
    for batch in range(4):
        rows = [
            {
                "ts": seconds(1000 + 6 * batch + generator.uniform(-8, 8)),
                "i": generator.choice((None, 0, 1)),
                "d": generator.choice((None, 0.0, -0.0, 1.5)),
                "s": generator.choice((None, "", "a", "b" * 30)),
            }
            for _ in range(60)
        ]
        stream.add(pa.Table.from_pylist(rows, SCHEMA))
    return stream


def windowed(rows: DataFrame) -> DataFrame:
    keys = [F.expr(key).alias(f"k{place}") for place, key in enumerate(KEYS.values())]
    return rows.groupBy(F.window("ts", "10 seconds"), *keys).agg(F.count("*"), F.sum("i"), F.expr("median(d)"))


QUERIES: dict[str, tuple[Query, str, dict[str, str]]] = {
    "windows": (windowed, "append", {"ingest": "rows"}),
    "windows, by tcp": (windowed, "update", {"ingest": "rows", "transport": "tcp", "merge.driverBytes": "0"}),
    "struct": (
        lambda rows: rows.groupBy(F.expr(KEYS["struct"]).alias("k")).count(),
        "update",
        {"merge.driverBytes": "0"},
    ),
    "array": (lambda rows: rows.groupBy("i", F.expr(KEYS["array"]).alias("k")).count(), "complete", {}),
}


@pytest.mark.parametrize(("query", "output", "conf"), QUERIES.values(), ids=QUERIES)
def test_micro_batches_are_sparks(
    spark: SparkSession, tmp_path: Path, query: Query, output: str, conf: dict[str, str]
) -> None:
    stream = made(spark, tmp_path)
    expected = ran(stream.read(), stream.folder, query, output, "off")
    found = ran(stream.read(), stream.folder, query, output, "require", **conf)
    assert sum(map(len, expected.batches)) > 8
    assert found.batches == expected.batches
