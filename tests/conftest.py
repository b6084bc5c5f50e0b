"""One Spark session for the whole test run; tests that need another master start their own application."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.faults.tally import Tally, table
from tests.support.jvm import JAVA_OPTIONS, LONG_LIVED, SMALL_PAGES
from tests.support.quiet_files import SETTINGS, quiet_files

BUILD = Path(__file__).resolve().parents[1] / "build"
ARCHIVE = BUILD / "tests.jsa"  # by scripts/class_archive.sh
RUNNING = BUILD / "running"  # which test a process is at: scripts/test.sh tells it when it is ended

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Executors run the tests' own Python; otherwise they take whatever `python3` is on the PATH.
os.environ["PYSPARK_PYTHON"] = sys.executable
# For every JVM, however it is started.
_JAVA = JAVA_OPTIONS + (f" -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else "")
os.environ.setdefault("JAVA_TOOL_OPTIONS", _JAVA)


# Long versions run when they are asked for, by `-m`.
_LONG = {
    "chaos": "every fault at every point, and a long soak: `make chaos` and `make soak` run them",
    "nightly": "minutes of Spark beside what the others cover: `make nightly` runs them",
}


# Of these `make test` runs all: what they cost is little for what they find. Others are marked `always`.
_WHOLE = (
    *("tests/test_", "tests/docs/test_pages.py", "tests/docs/test_links.py", "tests/model/", "tests/plan/"),
    *("tests/streaming/streams/", "tests/pipelines/test_streams.py"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of a part, for what is too long to run whole."""
    parser.addoption("--tenth", metavar="SEED", help="a tenth that this seed draws, and what `always` runs")


def pytest_configure(config: pytest.Config) -> None:
    """Give Hypothesis all the time it takes: that tells of the machine's load, and nothing of the code."""
    if config.pluginmanager.hasplugin("hypothesispytest"):  # the emulated hosts of the lab do without it
        from hypothesis import HealthCheck, settings

        settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("any load")


def pytest_collection_finish() -> None:
    """Look for garbage in cycles seldom: rows come by the hundred thousand, and hardly any is in one."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is long, unless it is asked for, with the command that runs it."""
    for marker, reason in _LONG.items():
        if marker not in config.option.markexpr:
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=reason))
    if (seed := config.option.tenth) is not None:
        _keep(config, items, lambda item: _runs_always(item) or _is_drawn(item, seed))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note which test this process is at, and since when."""
    RUNNING.mkdir(parents=True, exist_ok=True)
    (RUNNING / str(os.getpid())).write_text(f"{time.strftime('%T')} {item.nodeid}\n")


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Name a test that fails as soon as it does: of a run that is ended, nothing else tells."""
    if not report.failed:
        return None
    name = "error" if report.when != "call" else "failed"
    return name, f"\n{name.upper()} {report.nodeid}\n", name.upper()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Take it for a success that a draw leaves none of the few tests that a run was given."""
    if session.config.option.tenth is not None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def _keep(config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = filter(wanted, items)


def _is_drawn(item: pytest.Item, seed: str) -> bool:
    return crc32(f"{seed} {item.nodeid}".encode()) % 10 == 0


def _runs_always(item: pytest.Item) -> bool:
    if item.get_closest_marker("nightly"):
        return False
    return item.nodeid.startswith(_WHOLE) or item.get_closest_marker("always") is not None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counters of the fault tests, which may have run in other processes."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    tallies = [Tally(**value) for report in reports for name, value in report.user_properties if name == "tally"]
    if tallies:
        terminalreporter.section("faults that have struck, rows in, groups emitted, lost, duplicated, wrong")
        terminalreporter.write_line(table(tallies))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session of two cores."""
    session = (
        SparkSession.builder.master("local[2]")
        .appName("pyslash tests")
        # Of a gigabyte, the default, hundreds of queries leave so little that a fifth of the time goes into collecting.
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", LONG_LIVED)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.slash.arena.size", "256m")
        .config(map=SMALL_PAGES | SETTINGS)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with quiet_files(session):
        yield session
    session.stop()
