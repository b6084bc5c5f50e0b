"""py4j as it is set: no key of pyslash is in its log, and what it sends within a micro-batch goes at once.

At DEBUG the log has the arguments of every call to the JVM.
"""

from __future__ import annotations

import base64
import logging
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.cluster.find_agents import find_agents
from pyslash.driver.start import hook
from pyslash.protocol.token import Right, query_token
from pyslash.spark.py4j_settings import LOGGERS
from tests.support.attempt import BATCHES, attempt, make_stream, settings


class Written(logging.Handler):
    """Every message, as a file would have it."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.text.append(self.format(record))


@contextmanager
def debugged() -> Iterator[Written]:
    """py4j at DEBUG."""
    written, loggers = Written(), [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(written)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        yield written
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(written)
            logger.setLevel(level)
            logger.propagate = propagate


def spellings(key: bytes) -> Iterator[str]:
    """How 32 bytes may stand in a text; of Base64 what depends on no bytes beside them, wherever they begin."""
    yield key.hex()
    yield key.hex().upper()
    yield key.decode("latin-1")
    yield repr(key)[2:-1]
    yield str(list(key))[1:-1]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for lead in range(3):
            text = encode(bytes(lead) + key).decode()
            yield text[-(-lead * 4 // 3) : -4]


def check(written: Written, secret: bytes, query: bytes) -> None:
    log = "\n".join(written.text)
    keys = {right.name: query_token(secret, query, right)[1:] for right in Right} | {"secret": secret}
    assert [name for name, key in keys.items() for one in spellings(key) if one in log] == []


def sums(df: DataFrame) -> DataFrame:
    return df.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"))


@pytest.mark.parametrize("ingest", ["files", "rows"])
def test_a_query_leaves_no_key_in_the_log(spark: SparkSession, tmp_path: Path, ingest: str) -> None:
    stream = make_stream(spark, tmp_path, BATCHES)
    with debugged() as written:
        ran = attempt(sums(stream.read()), tmp_path / "checkpoint", ingest=ingest, merge_driverBytes="0")
    assert ran.error is None
    assert ran.ran_on_pyslash
    assert ran.query is not None
    assert any("Command to send: " in line for line in written.text)
    assert any("characters)" in line for line in written.text)
    check(written, hook._secret, uuid.UUID(str(ran.query.id)).bytes)


def test_agents_are_found_by_workers_without_a_key_in_the_log(spark: SparkSession) -> None:
    with debugged() as written:
        find_agents(spark, hook._secret, 64 << 20, 60, by_worker=True)
    assert any("Command to send: " in line for line in written.text)
    check(written, hook._secret, bytes(16))


def test_a_key_is_found_where_nothing_leaves_it_out(spark: SparkSession) -> None:
    """Or the tests above prove nothing."""
    key = bytes(range(100, 132))
    for lead in range(3):
        for tail in (b"", b"ab", b"\0\0\0"):
            text = base64.b64encode(b"x" * lead + key + tail).decode()
            assert any(one in text for one in spellings(key)), (lead, tail)


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
