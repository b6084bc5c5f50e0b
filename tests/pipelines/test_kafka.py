"""JSON from Kafka into windows: the rows, the watermarks and the figures of each micro-batch are plain Spark's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import pyslash
from tests.support.record_stream import START, Run, by_a_time_of_its_own, by_fields, events


def produce(spark: SparkSession, kafka: str, topic: str, records: Sequence[bytes]) -> None:
    """Append them, in turn to the topic's two partitions."""
    rows = [(bytearray(record), number % 2) for number, record in enumerate(records)]
    frame = spark.createDataFrame(rows, "value binary, partition int").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", kafka).option("topic", topic).save()


def source(spark: SparkSession, kafka: str, topic: str) -> DataFrame:
    """The topic in micro-batches of 1,500 records."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1500"}
    return spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": kafka}, **options).load()


@pytest.mark.parametrize("query", [by_fields, by_a_time_of_its_own])
def test_json_from_kafka(
    spark: SparkSession, kafka: str, tmp_path: Path, query: Callable[[DataFrame], DataFrame]
) -> None:
    """Batch by batch, over a restart from the checkpoint."""
    topic = query.__name__
    pyslash.enable(spark)
    rows = query(source(spark, kafka, topic))
    plain, native = Run(rows, tmp_path / "plain", "off"), Run(rows, tmp_path / "native", "require")
    try:
        for part in range(2):
            produce(spark, kafka, topic, events(part, 4000, START + 40 * part))
            plain.go_on()
            native.go_on()
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    native.check(plain, records=8000)
    left = [one["behind"] for one in native.ours if one["rows"]]
    assert left == [2500, 1000, 0] * 2, "of the records of each part, behind those of its micro-batches"
