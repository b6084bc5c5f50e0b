"""What `pyslash.enable(spark)` asks of a session, and what it finds out by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pyslash
from pyslash.errors import ConfigError, RowBridgeUnavailableError
from pyslash.memory import Room
from pyslash.spark import session
from pyslash.spark.jvm_bridge import JvmBridge

# A stranger's job: nothing of pyslash but `enable`, queries with and without a name, one that is not covered.
JOB = """
import sys
import pyslash
from pyspark.sql import SparkSession, functions as F

settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
pyslash.enable(spark)
rows = spark.readStream.schema("ts timestamp, k string, v long").json(sys.argv[1])
rows = rows.withWatermark("ts", "1 minute")
counts = rows.groupBy(F.window("ts", "5 minutes"), "k").count()
lists = rows.groupBy(F.session_window("ts", "5 minutes"), "k").agg(F.collect_list("v"))
for name, df in {"clicks": counts, "": counts, "lists": lists, "copies": rows}.items():
    writer = df.writeStream.format("noop").trigger(availableNow=True)
    query = (writer.queryName(name) if name else writer).start()
    query.awaitTermination()
    print("query", name or query.id, "epochs on pyslash:", len(pyslash.progress(query)))
"""


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Any]:
    """Sets keys of the session, and takes them back."""
    before: dict[str, str | None] = {}

    def put(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield put
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def test_a_job_whose_environment_is_not_active_runs_on_pyslash_and_spark_s_log_says_so(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "rows").mkdir()
    rows = "".join(f'{{"ts": "2026-01-01T00:0{i}:00", "k": "a", "v": {i}}}\n' for i in range(10))
    (tmp_path / "rows" / "1.json").write_text(rows)
    job: list[str | Path] = [sys.executable, tmp_path / "job.py", tmp_path / "rows"]
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "JAVA_TOOL_OPTIONS") if name in os.environ}
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1", **kept}
    done = subprocess.run(job, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    epochs = dict(re.findall(r"^query (\S+) epochs on pyslash: (\d+)$", done.stdout, re.MULTILINE))
    named, nameless, *left = epochs
    assert (named, left) == ("clicks", ["lists", "copies"])
    assert [int(epochs[name]) > 0 for name in epochs] == [True, True, False, False], done.stderr[-3000:]
    said = re.findall(r" WARN pyslash: query (\S+) (runs on pyslash|stays on plain Spark): (.*)", done.stderr)
    assert [(name, how) for name, how, _ in said] == [
        ("clicks", "runs on pyslash"),
        (nameless, "runs on pyslash"),
        ("lists", "stays on plain Spark"),
        ("copies", "stays on plain Spark"),
    ]
    assert "collect_list(v) of a session has no native form" in said[2][2]
    assert "no stateful operator" in said[3][2]
    assert done.stderr.count("stays on plain Spark") == 2, "Python says it a second time"


def test_a_python_that_the_user_has_named_stays(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "python3")
    session.choose_python(spark)
    assert context.pythonExec == "python3", "the tests set PYSPARK_PYTHON"
    monkeypatch.delenv("PYSPARK_PYTHON")
    session.choose_python(spark)
    assert context.pythonExec == sys.executable


@pytest.mark.parametrize(
    ("master", "named", "chosen"),
    [
        ("local", None, sys.executable),
        ("local-cluster[2,1,1024]", None, sys.executable),
        ("spark://host:7077", None, "python3"),
        ("yarn", None, "python3"),
        ("local[*]", "/their/python", "/their/python"),
        ("spark://host:7077", "/their/python", "/their/python"),
    ],
)
def test_the_python_of_executors(master: str, named: str | None, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    conf = {} if named is None else {"spark.pyspark.python": named}
    context = SimpleNamespace(master=master, pythonExec="python3", getConf=lambda: conf)
    session.choose_python(SimpleNamespace(sparkContext=context))
    assert context.pythonExec == chosen


@pytest.mark.parametrize(("beside", "chosen"), [(False, "python3"), (True, "/their/python")])
def test_spark_submit_puts_the_setting_before_the_environment(
    beside: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process beside its driver has the environment, as the job's own has it already turned around."""
    monkeypatch.setenv("PYSPARK_PYTHON", "/of/the/environment")
    conf = {"spark.pyspark.python": "/their/python"}
    context = SimpleNamespace(master="yarn", pythonExec="python3", getConf=lambda: conf)
    session.choose_python(SimpleNamespace(sparkContext=context), beside)
    assert context.pythonExec == chosen


def test_a_key_that_does_not_exist_is_an_error_with_the_nearest_one(spark: SparkSession, settings: Any) -> None:
    pyslash.enable(spark)
    settings("spark.slash.mdoe", "require")
    writer = spark.readStream.format("rate").load().writeStream.format("noop")
    try:
        for act in (lambda: pyslash.enable(spark), writer.start):
            with pytest.raises(ConfigError, match=r"mdoe is no key of pyslash: do you mean spark\.slash\.mode\?"):
                act()
    finally:
        pyslash.disable()


@pytest.mark.parametrize("mode", ["auto", "require"])
def test_without_the_jar_all_queries_stay_on_spark_or_nothing_is_enabled(
    spark: SparkSession, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    def find(bridge: JvmBridge) -> Any:
        raise RowBridgeUnavailableError("there is no jar")

    settings("spark.slash.mode", mode)
    try:
        with monkeypatch.context() as installation:
            installation.setattr(JvmBridge, "_find", find)
            if mode == "require":
                with pytest.raises(RowBridgeUnavailableError, match="there is no jar"):
                    pyslash.enable(spark)
            else:
                pyslash.enable(spark)
            counts = spark.readStream.format("rate").load().groupBy("value").count().writeStream.outputMode("complete")
            query = counts.format("noop").trigger(once=True).start()
            assert query.awaitTermination(900)
            assert pyslash.progress(query) == []
    finally:
        pyslash.disable()
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert ("all queries stay on plain Spark: there is no jar" in warned) == (mode == "auto")


def test_an_arena_that_the_machine_cannot_hold_is_refused_at_the_start(spark: SparkSession, settings: Any) -> None:
    settings("spark.slash.arena.size", "900t")
    has = f"{Room.here().size / (1 << 30):.1f} GiB: set a smaller one"
    with pytest.raises(ConfigError, match=rf"spark\.slash\.arena\.size is 921600\.0 GiB, .*{re.escape(has)}"):
        pyslash.enable(spark)


def test_what_is_no_session_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"takes a SparkSession, not 'x'"):
        pyslash.enable("x")


def test_what_is_no_query_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"takes a StreamingQuery, .*, not 'clicks'"):
        pyslash.progress("clicks")
