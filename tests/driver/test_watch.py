"""Telling of queries where nobody looks, and where telling fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyslash.conf import Conf
from pyslash.driver import watch as watching
from pyslash.driver.watch import QueryWatch
from pyslash.epoch_progress import EpochProgress
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import fallback_of
from pyslash.spark.writer import WriterSettings


def settings() -> WriterSettings:
    return WriterSettings("noop", OutputMode.APPEND, None, {"queryname": "q"})


def test_nothing_is_told_where_nobody_looks(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
    conf = Conf.read(lambda _, default: default)
    assert QueryWatch.of(spark, settings(), conf) is None


def test_a_query_outlives_a_failure_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        calls = 0

        def post(self, kind: str, figures: str) -> None:
            self.calls += 1
            raise Py4JError(f"no {kind}")

    java = Broken()
    watch = QueryWatch(java, settings(), Conf.read(lambda _, default: default))
    watch.began("id", "run")
    watch.epoch(1.0, [EpochProgress(0)])
    watch.left(fallback_of(RuntimeError("lost")))
    assert java.calls == 1
    assert "no more of this query: no epoch" in caplog.text


def test_a_query_has_started_even_if_its_plan_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise AnalysisException("a table is gone")

    monkeypatch.setattr(watching, "data_paths", fail)
    told: list[str] = []
    java = SimpleNamespace(post=lambda kind, figures: told.append(kind))
    query: Any = SimpleNamespace(id="id", runId="run")
    operator: Any = SimpleNamespace(explain_lines=[])
    rows: Any = None
    QueryWatch(java, settings(), Conf.read(lambda _, default: default)).started(query, rows, [operator])
    assert told == ["query"]
    assert "a table is gone" in caplog.text
