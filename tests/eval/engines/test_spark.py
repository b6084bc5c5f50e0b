"""Spark's engines: that each is set up as its name says, without a session."""

from __future__ import annotations

import pytest

from eval.engines import ENGINES, CannotRunError, SparkEngine
from eval.engines.spark import SPARK_ENGINES
from pyslash.conf import KEYS, PREFIX


def test_every_engine_has_the_cores_partitions_and_heap_of_all_others() -> None:
    for engine in SPARK_ENGINES:
        settings = engine.settings(3, {"spark.x": "y"})
        assert settings["spark.x"] == "y"
        if "-2x" not in engine.name:
            assert settings["spark.driver.memory"] == "3g"
            assert settings["spark.master"] == f"local[{settings['spark.sql.shuffle.partitions']}]"


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("slash-rows", "spark.slash.ingest", "rows"),
        ("slash-tcp", "spark.slash.transport", "tcp"),
        ("slash-repartition", "spark.slash.strategy", "repartition"),
        ("slash-2x", "spark.master", "local-cluster[2,1,2048]"),
        ("spark-rocksdb", "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true"),
        ("spark-rocksdb", "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "false"),
    ],
)
def test_an_engine_is_its_conf(name: str, key: str, value: str) -> None:
    assert ENGINES[name].settings(4, {})[key] == value


def test_rocksdb_as_it_comes_is_its_provider_alone() -> None:
    tuned, plain = (ENGINES[name].conf for name in ("spark-rocksdb", "spark-rocksdb-default"))
    assert list(plain) == ["spark.sql.streaming.stateStore.providerClass"]
    assert plain.items() < tuned.items()


def test_only_what_the_sink_keeps_is_compared() -> None:
    kept = {engine.name for engine in SPARK_ENGINES if engine.keeps}
    assert kept == {engine.name for engine in SPARK_ENGINES if engine.aggregates} | {"stateless"}
    assert "spark-rtm" not in kept


def test_a_key_that_pyslash_does_not_know_is_no_silent_default() -> None:
    engine = SparkEngine("slash-other", {PREFIX + "strategy.other": "x"}, slash=True)
    assert PREFIX + "strategy.other" not in KEYS
    with pytest.raises(CannotRunError, match=r"this pyslash has no spark\.slash\.strategy\.other"):
        engine.open(engine.settings(1, {}))
