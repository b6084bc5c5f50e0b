"""Jobs that would continue from a checkpoint, or not. `tests/streaming/test_plan_change.py` starts such jobs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyslash.cli import main
from pyslash.inspect.state.diff_plan import INCOMPLETE, REFUSED, REWRITTEN, SAME
from tests.support.attempt import BATCHES, attempt, make_stream
from tests.support.stream import Stream

Said = pytest.CaptureFixture[str]
HELD = ["sum(v)", "max(v)", "count(*)"]


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """Of a query that has stopped, in `checkpoint`."""
    stream = make_stream(spark, tmp_path_factory.mktemp("diff"), BATCHES)
    rows = stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(*map(F.expr, HELD))
    assert attempt(rows, stream.folder / "checkpoint").ran_on_pyslash
    return stream


Job = Callable[..., str]


@pytest.fixture
def job(stream: Stream, tmp_path: Path) -> Job:
    """Writes a program whose query has these aggregates, and which must not get further than its start."""

    def written(aggregates: list[str], window: str = "10 seconds", conf: str = "") -> str:
        path = tmp_path / "job.py"
        path.write_text(
            textwrap.dedent(f"""
            import sys
            import pyslash
            from pyspark.sql import SparkSession, functions as F
            spark = SparkSession.builder.getOrCreate()
            {conf}
            rows = spark.readStream.schema("ts timestamp, k string, v long").parquet({str(stream.folder / "in")!r})
            rows = rows.withWatermark("ts", "10 seconds")
            aggregates = [F.expr(one) for one in {aggregates!r}]
            for name in ("other", "clicks"):
                query = rows.groupBy(F.window("ts", {window!r} if name == "clicks" else "1 hour"), "k").agg(*aggregates)
                try:
                    query = query.writeStream.format("noop").queryName(name).start(outputMode="append")
                    assert name == "other", "the query has started"
                    query.awaitTermination()
                    spark.streams.awaitAnyTermination()
                    pyslash.disable()
                except Exception as error:
                    sys.exit(f"the job caught {{error!r}}")
            """)
        )
        return str(path)

    return written


@pytest.mark.parametrize(
    ("aggregates", "status", "told"),
    [
        (HELD, SAME, ["aggregation: continues with its state as it is"]),
        (["sum(v)", "avg(v)"], REWRITTEN, ["- max(v)", "- count(*)", "+ avg(v), of all rows, from states that are"]),
        ([*HELD, "min(v)"], INCOMPLETE, ["+ min(v), of the rows since batch ", "plan.change=aggregates would allow"]),
    ],
)
def test_what_is_dropped_and_added_is_said(
    stream: Stream, job: Job, capsys: Said, aggregates: list[str], status: int, told: list[str]
) -> None:
    checkpoint = str(stream.folder / "checkpoint")
    assert main(["state", "diff-plan", "--query", "clicks", checkpoint, job(aggregates)]) == status
    said = capsys.readouterr().out
    assert [line for line in told if line not in said] == []


def test_a_job_that_does_not_continue(stream: Stream, job: Job, capsys: Said) -> None:
    checkpoint = str(stream.folder / "checkpoint")
    assert main(["state", "diff-plan", "--query", "clicks", checkpoint, job(HELD, "20 seconds")]) == REFUSED
    said = capsys.readouterr().out
    assert "operator 0, aggregation: does not continue\n" in said
    assert "the window: " in said
    # Without a name it is the first query of the job, whose window is another one too.
    assert main(["state", "diff-plan", checkpoint, job(HELD)]) == REFUSED
    off = job(HELD, conf="spark.conf.set('spark.slash.mode', 'off')")  # nothing starts then either
    try:
        assert main(["state", "diff-plan", "--query", "clicks", checkpoint, off]) == SAME
    finally:
        stream.spark.conf.unset("spark.slash.mode")


def test_a_job_without_such_a_query_is_an_error_of_the_arguments(stream: Stream, tmp_path: Path, capsys: Said) -> None:
    checkpoint = str(stream.folder / "checkpoint")
    (tmp_path / "none.py").write_text("import sys\nassert sys.argv[1:] == ['--input', 'x']\n")
    arguments = [str(tmp_path / "none.py"), "--input", "x"]
    assert main(["state", "diff-plan", "--query", "clicks", checkpoint, *arguments]) == 2
    assert "none.py ends and has not started a query named clicks" in capsys.readouterr().err
    assert main(["state", "diff-plan", checkpoint, str(tmp_path / "missing.py")]) == 2
    assert "fails with FileNotFoundError" in capsys.readouterr().err
    (tmp_path / "broken.py").write_text("raise ValueError('no input')\n")
    assert main(["state", "diff-plan", checkpoint, str(tmp_path / "broken.py")]) == 2
    assert "broken.py fails with ValueError: no input" in capsys.readouterr().err
    assert main(["state", "diff-plan", str(tmp_path), *arguments]) == 2
    assert "holds no state of pyslash" in capsys.readouterr().err


def test_state_in_memory_alone_is_not_rewritten(stream: Stream, job: Job, tmp_path: Path, capsys: Said) -> None:
    rows = stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(*map(F.expr, HELD))
    assert attempt(rows, tmp_path / "memory", durability="replica").ran_on_pyslash
    command = ["state", "diff-plan", "--query", "clicks", str(tmp_path / "memory")]
    assert main([*command, job(HELD)]) == SAME
    assert main([*command, job(["sum(v)"])]) == REFUSED
    assert "in memory alone" in capsys.readouterr().out
