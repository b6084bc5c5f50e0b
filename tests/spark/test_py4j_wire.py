"""What the driver's JVM and its Python tell each other within a micro-batch does not wait for acknowledgements."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.attempt import BATCHES, make_stream, settings


def sends_at_once(gateway: JavaObject) -> tuple[bool, bool]:
    """Of this thread's connection: Python's end, the JVM's."""
    ours = gateway._gateway_client.get_thread_connection().socket
    of_jvm = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient().getPerThreadConnection()
    return bool(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)), of_jvm.getSocket().getTcpNoDelay()


@pytest.mark.parametrize(("mode", "wanted"), [("require", True), ("off", False)])
def test_the_connection_of_a_query_s_thread_sends_at_once(
    spark: SparkSession, tmp_path: Path, mode: str, wanted: bool
) -> None:
    found: list[tuple[bool, bool]] = []
    stream = make_stream(spark, tmp_path, BATCHES[:1])

    def look(rows: DataFrame, _: int) -> None:
        rows.count()  # plain Spark refuses a batch whose state nobody has asked for
        found.append(sends_at_once(spark.sparkContext._gateway))

    with settings(spark, {"spark.slash.mode": mode}):
        writer = stream.read().groupBy("k").agg(F.sum("v")).writeStream.outputMode("update").foreachBatch(look)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination(300)
    assert set(found) == {(wanted, wanted)}
