"""Every documented command does what its page says: run as written, or handled as `table.py` declares."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash import cli
from pyslash.state.backfill import Backfills
from tests.docs.blocks import ROOT, blocks
from tests.docs.table import COMMANDS, OUTPUT, PYTHON, RECIPES, STATUS, Block, How

LANGUAGES = {"", "sh", "python", "text", "yaml"}
PREPARATIONS = ("source ", "printf ", "pyslash state save ")
SECONDS = 120
NIGHTLY_SECONDS = 1800


def documented() -> dict[str, str]:
    """Each command of the pages, and what its block prepares before it: an environment, a file."""
    found: dict[str, str] = {}
    for block in blocks("sh"):
        before: list[str] = []
        for command in block.commands:
            found.setdefault(command, "\n".join(before))
            if command.startswith(PREPARATIONS):
                before.append(command)
    return found


SHELL = documented()


def of_kind(*kinds: How) -> list[Any]:
    """Documented commands of some kinds; those that take minutes are marked."""
    night = [pytest.mark.nightly, pytest.mark.timeout(NIGHTLY_SECONDS)]
    return [
        pytest.param(command, id=command, marks=night if COMMANDS[command] is How.NIGHTLY else [])
        for command in SHELL
        if COMMANDS.get(command) in kinds
    ]


def test_every_documented_command_is_declared() -> None:
    assert list(SHELL), "there are commands at all"
    assert [command for command in SHELL if command not in COMMANDS] == [], "declare them in tests/docs/table.py"


def test_nothing_is_declared_that_no_page_has() -> None:
    assert [command for command in COMMANDS if command not in SHELL] == []
    assert set(RECIPES) == {command for command, how in COMMANDS.items() if how is How.RECIPE}
    assert {*OUTPUT, *STATUS} <= {command for command, how in COMMANDS.items() if how in (How.RUN, How.NIGHTLY)}


def test_every_block_has_a_language_that_a_test_reads() -> None:
    assert {block.language for block in blocks()} <= LANGUAGES


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A copy of the checkout with what the pages speak of: job.py, a results file, a query's checkpoint."""
    copy = tmp_path_factory.mktemp("checkout")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / ".venv").symlink_to(sys.prefix)
    (copy / "job.py").write_text(the_job())
    shutil.copy(copy / "eval" / "results" / "README.jsonl", copy / "eval" / "results" / "FILE.jsonl")
    write_checkpoint(spark, copy / "CHECKPOINT", copy / "clicks")
    return copy


def the_job() -> str:
    """The one that docs/start.md has its reader write."""
    (job,) = (block.text for block in blocks("python") if kind_of(block.page, block.text) is Block.JOB)
    return job


def kind_of(page: str, text: str) -> Block | None:
    """What the table declares of a Python block."""
    return PYTHON.get((page, text.splitlines()[0]))


def write_checkpoint(spark: SparkSession, checkpoint: Path, rows: Path) -> None:
    """Of a query on pyslash, five micro-batches long, with windows that are open."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    rows.mkdir()
    for batch in range(5):
        times = [noon + timedelta(seconds=10 * batch + i) for i in range(10)]
        users = ["alice", "bob"] * 5
        pq.write_table(pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "user": users}), rows / f"{batch}")
        os.utime(rows / f"{batch}", (1_700_000_000 + batch,) * 2)
    pyslash.enable(spark)
    clicks = spark.readStream.schema("time timestamp, user string").option("maxFilesPerTrigger", 1).parquet(str(rows))
    counts = clicks.withWatermark("time", "1 hour").groupBy(F.window("time", "10 minutes"), "user").count()
    writer = counts.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).queryName("clicks").start()
    query.awaitTermination()
    assert pyslash.progress(query), "the query ran on pyslash"


def write_join(spark: SparkSession, checkpoint: Path, folder: Path) -> None:
    """Of a query that joins orders, of which one has no payment, with payments."""
    pyslash.enable(spark)
    pyslash.register_state(spark)  # as the page has it before
    sides = []
    for name, orders in (("orders", [7, 8]), ("payments", [7])):
        (folder / name).mkdir(parents=True)
        noon = pa.array([datetime(2026, 1, 31, 12, tzinfo=UTC)] * len(orders), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({f"{name}_time": noon, "order_id": orders}), folder / name / "0")
        rows = spark.readStream.schema(f"{name}_time timestamp, order_id bigint").parquet(str(folder / name))
        sides.append(rows.withWatermark(f"{name}_time", "1 hour").alias(name))
    orders, payments = sides
    paid = orders.join(payments, F.expr("orders.order_id = payments.order_id AND payments_time = orders_time"))
    writer = paid.drop("order_id").writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert pyslash.progress(query), "the query ran on pyslash"


def run(command: str, cwd: Path, seconds: float = SECONDS, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command as bash runs it; standard error goes where standard output goes. All of it ends with its time."""
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said)


@pytest.mark.parametrize("command", of_kind(How.RUN, How.NIGHTLY))
def test_it_runs_as_written(command: str, checkout: Path, tmp_path: Path) -> None:
    is_long = COMMANDS[command] is How.NIGHTLY
    environment = {"JAVA_TOOL_OPTIONS": ""} if is_long else {}  # JVMs of tests start fast, and run slowly
    if command.startswith("pip "):  # into an environment of its own, as the page says
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
        environment["PATH"] = f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}"
    seconds = NIGHTLY_SECONDS if is_long else SECONDS
    done = run(f"{SHELL[command]}\n{command}", checkout, seconds, **environment)
    assert done.returncode in STATUS.get(command, (0,)), done.stdout[-4000:]
    assert re.search(OUTPUT.get(command, ""), done.stdout), done.stdout[-4000:]


@pytest.mark.parametrize("command", of_kind(How.MAKE))
def test_its_target_exists_and_what_it_calls_takes_its_options(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(command.replace("make ", "make -n ", 1), ROOT)
    assert done.returncode == 0, done.stdout
    for call in re.findall(r"(?:python -m eval|pyslash) .*", done.stdout.replace("\\\n", " ")):
        parsed(call.partition(" || ")[0], monkeypatch)


@pytest.mark.parametrize("command", of_kind(How.PARSE))
def test_its_options_parse(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed(command, monkeypatch)


def test_a_wrong_option_does_not_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (
        "python -m eval suite windows --row 5 --lines",
        "python -m eval suite nothing",
        "pyslash state lst X",
    ):
        with pytest.raises((SystemExit, AssertionError)):
            parsed(wrong, monkeypatch)


class Parsed(Exception):
    """The command line was understood; it goes no further."""


def parsed(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the program of a command parse it, and check the names that argparse does not check."""
    from eval.engines import ENGINES
    from eval.suites import SUITES

    original = argparse.ArgumentParser.parse_args

    def parse(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
        raise Parsed(original(self, args, namespace))

    words = shlex.split(command)
    module, arguments = (words[2], words[3:]) if words[0] == "python" else ("pyslash.cli", words[1:])
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(Parsed) as found:
        start(module)
    (given,) = found.value.args
    assert set((getattr(given, "engines", None) or "slash").split(",")) <= set(ENGINES), command
    assert set(getattr(given, "names", [])) <= {"all", *SUITES}, command


def start(module: str) -> None:
    """What `python -m` or the console script does."""
    if module == "pyslash.cli":
        cli.main()
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


@pytest.mark.parametrize("command", of_kind(How.SUBMIT))
def test_spark_submit_takes_its_options(command: str) -> None:
    home = Path(pyspark.__file__).parent
    launcher = f"java -cp '{home}/jars/*' org.apache.spark.launcher.Main org.apache.spark.deploy.SparkSubmit"

    def launched(command: str) -> str:
        """What Spark's launcher makes of the options: the JVM to start, or what it does not know."""
        words = launcher + command.removeprefix("spark-submit")
        return run(words, ROOT, SPARK_HOME=str(home), SPARK_SCALA_VERSION="2.13").stdout

    assert "Unrecognized option: --package" in launched(command.replace("--packages", "--package"))
    said = launched(command)
    assert "Unrecognized option" not in said
    assert "io.delta:delta-spark" in said


@pytest.mark.parametrize("command", of_kind(How.RECIPE))
def test_a_recipe_has_the_same_words(command: str) -> None:
    file, wanted = RECIPES[command]
    text = (ROOT / file).read_text()
    assert [words for words in wanted if words not in text] == [], f"{file} does otherwise than the page"


@pytest.mark.parametrize("command", of_kind(How.ABSENT))
def test_a_program_that_machines_lack_has_its_options(command: str) -> None:
    program, action, *words = shlex.split(command)
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here, so the documented `{program} {action}` was not tried")
    known = subprocess.run([program, action, "--help"], capture_output=True, text=True, check=True).stdout
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert [option for option in options if f"{option} " not in known] == []


@pytest.fixture
def names(spark: SparkSession, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the text around a Python block speaks of: a session, a stream, a query that runs, a micro-batch."""
    pyslash.enable(spark)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts: DataFrame = source.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "1 second")).count()
    writer = counts.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    try:
        yield {
            "spark": spark,
            "df": counts,
            "counts": counts,
            "query": query,
            "batch": spark.range(1),
            "batch_id": 0,
        }
    finally:
        query.stop()
        for name in ("txnAppId", "txnVersion"):
            spark.conf.unset(f"spark.databricks.delta.write.{name}")


def python_blocks() -> list[Any]:
    """Every Python block, as (page, text)."""
    return [pytest.param(block.page, block.text, id=block.page) for block in blocks("python")]


@pytest.mark.parametrize(("page", "text"), python_blocks())
def test_a_python_block_executes(
    page: str,
    text: str,
    names: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = kind_of(page, text)
    assert kind is not None, "declare it in tests/docs/table.py"
    if kind is Block.JOB:
        compile(text, page, "exec")  # test_it_runs_as_written runs it
        return
    if kind is Block.CLIENT:
        called = re.findall(r"connect\.\w+\(", text)
        client = (ROOT / "tests/driver/connect_client.py").read_text()
        assert called
        assert [call for call in called if call not in client] == []
        return
    if "(checkpoint)" in text or " checkpoint," in text:
        names["checkpoint"], names["archive"] = str(tmp_path / "CHECKPOINT"), str(tmp_path / "clicks")
        write = write_join if "joinSide" in text else write_checkpoint
        write(names["spark"], tmp_path / "CHECKPOINT", tmp_path / "clicks")
    context = names["spark"].sparkContext
    monkeypatch.setattr(type(context), "getLocalProperty", lambda self, name: "a query's id")
    exec(compile(text, page, "exec"), names)
    if "explain" in text:
        assert "pyslash: covered" in capsys.readouterr().out
    if "backfill" in text:
        assert Backfills(names["checkpoint"]).read("archive").groups > 0
    if "show()" in text:
        printed = capsys.readouterr().out
        assert re.search(r"\|\s+8\|2026-01-31 12:00:00", printed) if "joinSide" in text else "alice" in printed
