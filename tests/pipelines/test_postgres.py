"""An upsert into PostgreSQL by `foreachBatch`: rows and batch id in one transaction, so that each counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from eval.pipelines import topic
from eval.pipelines.job import EXAMPLES
from eval.pipelines.orders import last, orders
from eval.pipelines.replay import replay
from examples.kafka_to_delta import ORDER
from tests.pipelines.postgres import PostgresError, postgres

ORDERS = 6_000
FAILING = 2  # the micro-batch whose function fails when its transaction is committed
TABLES = """
CREATE TABLE revenue (window_start timestamptz, shop text, orders bigint, cents bigint, changes bigint,
                      PRIMARY KEY (window_start, shop));
CREATE TABLE batches (batch bigint PRIMARY KEY);
"""
# Not to be done twice: it counts.
UPSERT = """
INSERT INTO revenue VALUES (%s, %s, %s, %s, 1) ON CONFLICT (window_start, shop)
DO UPDATE SET orders = excluded.orders, cents = excluded.cents, changes = revenue.changes + 1
"""


@pytest.fixture
def database() -> Iterator[str]:
    try:
        with postgres() as address:
            yield address
    except PostgresError as error:
        pytest.skip(f"no PostgreSQL: {error}")


def upsert(database: str, fails: Path) -> Callable[[DataFrame, int], None]:
    """The function of `foreachBatch`; it fails once, when `fails` is not there yet."""
    psycopg = pytest.importorskip("psycopg")

    def write(batch: DataFrame, number: int) -> None:
        rows = [(row.window_start, row.shop, row.orders, row.cents) for row in batch.toLocalIterator()]
        with psycopg.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO batches VALUES (%s) ON CONFLICT DO NOTHING", (number,))
            if cursor.rowcount:
                cursor.executemany(UPSERT, rows)
        if number == FAILING and not fails.exists():
            fails.touch()
            raise RuntimeError("between the transaction and Spark's commit")

    return write


def test_an_upsert_is_done_once(spark: SparkSession, kafka: str, database: str, tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg", reason="scripts/pipelines.sh has not brought psycopg")
    stream = [*islice(orders(seed=3), ORDERS - 1), last(ORDERS - 1)]
    topic.create(kafka, "orders-postgres")
    producer = topic.Orders(kafka, "orders-postgres")
    producer.send(stream)
    producer.flush()
    with psycopg.connect(database) as connection:
        connection.execute(TABLES)
    options = {"subscribe": "orders-postgres", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1500"}
    messages = spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": kafka}, **options).load()
    events = messages.select(F.from_json(F.col("value").cast("string"), ORDER).alias("order")).select("order.*")
    grouped = events.withWatermark("ordered_at", "10 seconds").groupBy(F.window("ordered_at", "10 seconds"), "shop")
    counted = grouped.agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    revenue = counted.select(F.col("window.start").alias("window_start"), "shop", "orders", "cents")
    pyslash.enable(spark)
    spark.conf.set("spark.slash.mode", "require")
    try:
        writer = revenue.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer = writer.trigger(availableNow=True).foreachBatch(upsert(database, tmp_path / "failed"))
        with pytest.raises(StreamingQueryException, match="between the transaction"):
            writer.start().awaitTermination(900)
        query = writer.start()
        assert query.awaitTermination(900)
        assert pyslash.progress(query)
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    expected = replay(tmp_path / "checkpoint", topic.partitions(stream))
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT * FROM revenue").fetchall()
    rows = [(round(row[0].timestamp() * 1000), *row[1:4]) for row in found]
    assert EXAMPLES["merge"].verdict(rows, expected).exact
    assert sum(row[4] for row in found) == expected.updated.total()
