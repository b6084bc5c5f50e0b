"""What pyslash logs, in Spark's log."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from pyslash.spark import spark_log


class Java:
    """The JVM's logger, and what it was given, by level."""

    def __init__(self, shows_info: bool) -> None:
        self.lines: list[tuple[str, str]] = []
        self._shows_info = shows_info
        self.shows_warnings = True

    def isInfoEnabled(self) -> bool:
        return self._shows_info

    def isWarnEnabled(self) -> bool:
        return self.shows_warnings

    def __getattr__(self, level: str) -> object:
        return lambda text: self.lines.append((level, text))


class Filter:
    """Of an appender, of this class."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getClass(self) -> Filter:
        return self

    def getName(self) -> str:
        return self._name


SHELL = Filter("org.apache.spark.internal.SparkShellLoggingFilter")
# What the logger lets through, what Spark's shells leave out on the console, and the filters there.
SHOWN: dict[str, tuple[bool, object, list[Filter | None]]] = {
    "info": (True, None, [None]),
    "info under spark-submit": (True, "WARN", [Filter("RegexFilter"), None]),
    "info after setLogLevel in a shell": (True, None, [SHELL]),
    "warn": (False, None, [None]),
    "warn in a shell": (True, "WARN", [None, SHELL]),
}


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Java:
    shows_info, threshold, filters = SHOWN[getattr(request, "param", "warn")]
    made = Java(shows_info)
    module = SimpleNamespace(sparkShellThresholdLevel=lambda: threshold)
    internal = SimpleNamespace(**{"Logging$": SimpleNamespace(**{"MODULE$": module})})
    appenders = {place: SimpleNamespace(getFilter=lambda one=one: one) for place, one in enumerate(filters)}
    root = SimpleNamespace(getAppenders=lambda: appenders)
    log4j = SimpleNamespace(LogManager=SimpleNamespace(getRootLogger=lambda: root))
    apache = SimpleNamespace(spark=SimpleNamespace(internal=internal), logging=SimpleNamespace(log4j=log4j))
    slf4j = SimpleNamespace(LoggerFactory=SimpleNamespace(getLogger=lambda name: made))
    jvm = SimpleNamespace(org=SimpleNamespace(slf4j=slf4j, apache=apache))
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_jvm=jvm))
    spark_log.install()
    spark_log.install()
    return made


@pytest.mark.parametrize("java", SHOWN, indirect=True)
def test_a_notice_is_seen_whether_or_not_spark_shows_info(java: Java, request: pytest.FixtureRequest) -> None:
    spark_log.notice("query %s runs on pyslash", "{} 100%")
    level = request.node.callspec.params["java"].split()[0]
    assert java.lines == [(level, "query {} 100% runs on pyslash")]


def test_it_is_one_line_too_where_python_s_logging_is_set_up(java: Java, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pyslash"):
        spark_log.notice("query %s runs on pyslash", "clicks")
    assert java.lines == [("warn", "query clicks runs on pyslash")]
    assert caplog.messages == ["query clicks runs on pyslash"]


def test_other_lines_keep_their_level(java: Java, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("pyslash")
    with caplog.at_level(logging.DEBUG, "pyslash"):
        log.warning("a warning")
        log.error("an error")
        log.info("a detail")
        logging.getLogger("pyslash.rdma").debug("of a child")
    assert java.lines == [("warn", "a warning"), ("error", "an error"), ("info", "a detail"), ("debug", "of a child")]


def test_a_warning_is_seen_where_the_job_wants_errors_alone(java: Java, capsys: pytest.CaptureFixture[str]) -> None:
    java.shows_warnings = False
    logging.getLogger("pyslash").warning("query lists stays on plain Spark")
    spark_log.notice("query clicks runs on pyslash")
    assert capsys.readouterr().err == "query lists stays on plain Spark\n"


def test_without_a_jvm_a_warning_goes_where_python_s_go(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    spark_log.install()
    logging.getLogger("pyslash").warning("nobody %s", "listens")
    spark_log.notice("nor to this")
    assert capsys.readouterr().err == "nobody listens\n"
