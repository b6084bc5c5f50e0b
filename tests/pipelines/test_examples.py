"""The examples with Kafka and Delta: their sinks get what plain Spark gives them, and a repeated micro-batch is one."""

from __future__ import annotations

import importlib
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pyslash
from eval.pipelines import topic
from eval.pipelines.delta_table import rows_of, versions
from eval.pipelines.job import EXAMPLES, Example
from eval.pipelines.orders import last, orders
from eval.pipelines.replay import Row, replay

ORDERS = 12_000
PARTS = (slice(0, 9_000), slice(9_000, ORDERS))
A_BATCH = 3_000


class Sink:
    """What one run of an example has written."""

    def __init__(self, example: Example, address: str, name: str, folder: Path) -> None:
        self._example, self._table = example, folder / "table"
        self._topic = topic.Revenue(address, name) if example.to_kafka else None

    def written(self) -> list[tuple[Any, Counter[Row]]]:
        """By micro-batch: the rows of the table after it, by its number; or all messages at once."""
        if self._topic is not None:
            return [(None, Counter(self._topic.rows()))]
        return [(batch, rows_of(self._table, files)) for batch, files in versions(self._table) if batch is not None]

    def close(self) -> None:
        if self._topic is not None:
            self._topic.close()


def rewind(checkpoint: Path) -> None:
    """The last micro-batch is in the sink, and Spark's commit never came: it comes again.

    Not for plain Spark: its query fails where Delta skips a MERGE, since then nobody has run its state stores.
    """
    commits = checkpoint / "commits"
    last_one = max(int(path.name) for path in commits.glob("[0-9]*"))
    for name in (f"{last_one}", f".{last_one}.crc"):
        (commits / name).unlink(missing_ok=True)


@pytest.mark.usefixtures("delta_jars")
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_sink_gets_what_plain_spark_gives_it(spark: SparkSession, kafka: str, tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    script = importlib.import_module(f"examples.{example.name}")
    stream = [*islice(orders(seed=1), ORDERS - 1), last(ORDERS - 1)]
    source, to = f"orders-{name}", {mode: f"revenue-{name}-{mode}" for mode in ("off", "require")}
    topic.create(kafka, source, *to.values())
    producer = topic.Orders(kafka, source)
    sinks = {mode: Sink(example, kafka, to[mode], tmp_path / mode) for mode in to}
    pyslash.enable(spark)
    try:
        for part in PARTS:
            producer.send(stream[part])
            producer.flush()
            for mode in to:
                arguments = example.arguments(kafka, source, to[mode], tmp_path / mode)
                spark.conf.set("spark.slash.mode", mode)
                more = ["--available-now", "--offsets-per-trigger", str(A_BATCH)]
                query = script.start(spark, script.parse([*arguments, *more]))
                assert query.awaitTermination(900)
                assert bool(pyslash.progress(query)) == (mode == "require")
            rewind(tmp_path / "require" / "checkpoint")
        plain, ours = (sinks[mode].written() for mode in ("off", "require"))
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
        for sink in sinks.values():
            sink.close()
    assert ours == plain
    expected = replay(tmp_path / "require" / "checkpoint", topic.partitions(stream))
    assert expected.orders == ORDERS
    assert expected.dropped > 0
    assert example.verdict(ours[-1][1].elements(), expected).exact
    assert ours[-1][1].total() > 50
