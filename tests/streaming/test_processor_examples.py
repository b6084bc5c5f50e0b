"""The examples with processors, over rows by chance, against plain Spark; and one of them as its users run it."""

from __future__ import annotations

import json
import random
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pyslash.spark.session import changed
from tests.support.example import EXAMPLES, run_example
from tests.support.processors import COVERED, STORE, WHY_NOT
from tests.support.ran import ran
from tests.support.stream import in_order, seconds

pytestmark = pytest.mark.skipif(not COVERED, reason=WHY_NOT)
TIME = pa.timestamp("us", "UTC")
BATCHES = 4
Values = tuple[Any, ...]


@dataclass(frozen=True)
class Example:
    """A job: its file, the function that makes its query, the name of its rows' schema, and a row around a minute."""

    file: str
    query: str
    schema: str
    row: Callable[[random.Random, float], Values]
    source: str = "parquet"
    columns: pa.Schema | None = None


def payment(generator: random.Random, minute: float) -> Values:
    cents = generator.choice((1, 99, 100, 3000, 50_000, 60_000))
    return seconds(60 * minute + generator.uniform(0, 90)), generator.randrange(12), cents, f"shop {cents % 7}"


def view(generator: random.Random, minute: float) -> Values:
    late = generator.choice((0, 0, 0, 3, 60))
    page = generator.choice(("/", "cart", "help", "logout"))
    return seconds(60 * (20 * minute + generator.uniform(0, 25) - late)), generator.randrange(12), page


def delivery(generator: random.Random, minute: float) -> Values:
    number = generator.randrange(60)
    return f"event {number}", int(minute) * 100 + generator.randrange(100), f"body {number}"


PAYMENTS = pa.schema([("paid_at", TIME), ("card", pa.int64()), ("cents", pa.int64()), ("shop", pa.string())])
VIEWS = pa.schema([("viewed_at", TIME), ("user", pa.int64()), ("page", pa.string())])
EXAMPLE = {
    "fraud": Example("fraud.py", "alerts", "PAYMENT", payment, columns=PAYMENTS),
    "visits": Example("visits.py", "visits", "VIEW", view, columns=VIEWS),
    "webhooks": Example("webhooks.py", "once", "DELIVERY", delivery, source="json"),
}


def write(rows: list[Values], names: list[str], schema: pa.Schema | None, path: Path, number: int) -> None:
    """A micro-batch's file: JSON if there is no schema of Parquet."""
    if schema is None:
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        pq.write_table(pa.table([[row[i] for row in rows] for i in range(len(schema))], schema), path)
    in_order(path, number)


@pytest.mark.parametrize("name", EXAMPLE)
def test_an_example_gives_sparks_rows(spark: SparkSession, tmp_path: Path, name: str) -> None:
    example, generator, source = EXAMPLE[name], random.Random(name), tmp_path / "in"
    job = runpy.run_path(str(EXAMPLES / example.file))
    source.mkdir()
    stream = spark.readStream.schema(job[example.schema]).option("maxFilesPerTrigger", 1)
    names = stream.format(example.source).load(str(source)).columns
    for batch in range(BATCHES):
        rows = [example.row(generator, batch) for _ in range(40)]
        write(rows, names, example.columns, source / f"{batch}.{example.source}", batch)
    # For a clock Spark would run micro-batches without rows, and without end.
    without_rows = str(name != "webhooks").lower()
    with changed(spark, {**STORE, "spark.sql.streaming.noDataMicroBatches.enabled": without_rows}):
        given = [
            ran(stream.format(example.source).load(str(source)), tmp_path, job[example.query], "append", mode)
            for mode in ("off", "require")
        ]
    assert given[1].batches == given[0].batches
    assert sum(map(len, given[0].batches)) > 10
    assert len(given[1].progress) == len(given[0].batches), "pyslash has run each batch"


def test_a_job_with_a_processor_starts_by_a_command(spark: SparkSession, tmp_path: Path) -> None:
    """Card 2 pays much, too late; card 3 pays nothing tiny; of card 4 a second tiny payment prolongs the minute."""
    payments = tmp_path / "payments"
    payments.mkdir()
    batches: list[list[tuple[int, int, int]]] = [
        [(0, 1, 90), (1, 2, 50), (2, 3, 200), (3, 4, 1)],
        [(30, 1, 60_000), (40, 4, 2), (41, 3, 70_000)],
        [(80, 2, 60_000), (95, 4, 90_000)],
        [(400, 1, 80_000)],
    ]
    for number, batch in enumerate(batches):
        rows = [(seconds(1000 + at), card, cents, f"shop {at}") for at, card, cents in batch]
        write(rows, PAYMENTS.names, PAYMENTS, payments / f"{number}.parquet", number)
    output = run_example("fraud.py", payments, tmp_path)
    alerts = spark.read.parquet(str(output)).orderBy("paid_at").collect()
    assert [(alert.card, alert.tried_in, alert.shop, alert.cents) for alert in alerts] == [
        (1, "shop 0", "shop 30", 60_000),
        (4, "shop 40", "shop 95", 90_000),
    ]
