"""Other ways into a Delta table than the examples': a table by its name, and a table that each micro-batch replaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import pyslash
from eval.pipelines import topic
from eval.pipelines.delta_table import rows_of, versions
from eval.pipelines.orders import last, orders
from examples.kafka_to_delta import ORDER

ORDERS = 4_000


@pytest.fixture
def revenue(spark: SparkSession, kafka: str, delta_jars: str, tmp_path: Path) -> Iterator[DataFrame]:
    """As that of the examples, in two micro-batches of orders."""
    source = tmp_path.name
    topic.create(kafka, source)
    producer = topic.Orders(kafka, source)
    producer.send([*islice(orders(seed=2), ORDERS - 1), last(ORDERS - 1)])
    producer.flush()
    options = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ORDERS // 2)}
    messages = spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": kafka}, **options).load()
    events = messages.select(F.from_json(F.col("value").cast("string"), ORDER).alias("order")).select("order.*")
    grouped = events.withWatermark("ordered_at", "10 seconds").groupBy(F.window("ordered_at", "10 seconds"), "shop")
    counted = grouped.agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    pyslash.enable(spark)
    yield counted.select(F.col("window.start").alias("window_start"), "shop", "orders", "cents")
    spark.conf.unset("spark.slash.mode")
    pyslash.disable()


def by_name(writer: DataStreamWriter, table: Path) -> StreamingQuery:
    return writer.outputMode("append").toTable(f"revenue_{table.name}", format="delta", path=str(table))


def replaced(writer: DataStreamWriter, table: Path) -> StreamingQuery:
    return writer.outputMode("complete").format("delta").start(str(table))


@pytest.mark.parametrize("start", [by_name, replaced])
def test_a_table_has_the_versions_that_plain_spark_gives_it(
    spark: SparkSession,
    revenue: DataFrame,
    tmp_path: Path,
    start: Callable[[DataStreamWriter, Path], StreamingQuery],
) -> None:
    found = {}
    for mode in ("off", "require"):
        spark.conf.set("spark.slash.mode", mode)
        checkpoint = str(tmp_path / f"checkpoint-{mode}")
        writer = revenue.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = start(writer, tmp_path / mode)
        assert query.awaitTermination(900)
        assert bool(pyslash.progress(query)) == (mode == "require")
        table = tmp_path / mode
        found[mode] = [(batch, rows_of(table, files)) for batch, files in versions(table) if batch is not None]
        spark.sql(f"DROP TABLE IF EXISTS revenue_{mode}")
    assert found["require"] == found["off"]
    assert len(found["off"]) >= 2
    assert sum(map(Counter.total, (rows for _, rows in found["off"]))) > 50
