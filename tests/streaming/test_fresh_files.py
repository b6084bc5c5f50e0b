"""Behind a backlog of files the newest ones come first; in the end the rows are plain Spark's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import json as arrow_json
from pyarrow import parquet
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.errors import InvalidInputError
from pyslash.migrate.export import export
from pyslash.spark.session import changed
from pyslash.state.manifest import Manifest, ManifestLog
from pyslash.state.savepoint import fork, save
from tests.support.fresh_first import (
    SCHEMA,
    START,
    Given,
    SinkError,
    by_key,
    offsets,
    records,
    run,
    run_until,
    settings,
)
from tests.support.plugin import PLUGIN

FILES = 8
RECORDS = 1_000  # of a file
DAY = 86_400
EXAMPLE = Path(__file__).parents[2] / "examples" / "fresh_clicks.py"


def add(folder: Path, number: int, modified: float | None = None, form: str = "json") -> Path:
    """The file with this number, seen whole or not at all; without `modified`, each is a second younger."""
    lines = b"\n".join(records(number * RECORDS, RECORDS))
    folder.mkdir(exist_ok=True)
    hidden, path = folder / f".{number:03}", folder / f"{number:03}.{form}"
    if form == "parquet":
        read = arrow_json.read_json(pa.BufferReader(lines))
        at = read["at"].cast(pa.timestamp("us", "UTC"))
        parquet.write_table(read.set_column(0, "at", at).set_column(2, "value", read["value"].cast("int32")), hidden)
    else:
        hidden.write_bytes(lines)
    at_seconds = START + number if modified is None else modified
    os.utime(hidden, (at_seconds, at_seconds))
    return hidden.rename(path)


def fill(folder: Path, form: str = "json", first: int = 0, count: int = FILES) -> None:
    """Files of which each is a second younger than the one before."""
    for number in range(first, first + count):
        add(folder, number, form=form)


def alike(folder: Path) -> None:
    """Files of one time."""
    for number in range(FILES):
        add(folder, number, modified=START)


def apart(folder: Path) -> None:
    """Files that are older than Spark's `maxFileAge`, once the newest one has been read."""
    for number in range(FILES):
        add(folder, number, modified=START + number * 30 * DAY)


def source(spark: SparkSession, folder: Path | str, form: str = "json", **options: str) -> DataFrame:
    """The folder, a file a micro-batch."""
    given = {"maxFilesPerTrigger": "1", **options}
    return spark.readStream.format(form).schema(SCHEMA).options(**given).load(str(folder))


def chosen(checkpoint: Path) -> list[list[str]]:
    """The names of the files in each entry of the source's log."""
    logs = sorted((checkpoint / "sources" / "0").glob("[0-9]*"), key=lambda path: int(path.name.split(".")[0]))
    found: dict[int, list[str]] = {}
    for log in logs:
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            names = found.setdefault(entry["batchId"], [])
            if (name := entry["path"].rpartition("/")[2]) not in names:
                names.append(name)
    return [found[number] for number in sorted(found)]


@pytest.mark.parametrize(
    ("mode", "form"),
    [("update", "json"), pytest.param("complete", "json", marks=pytest.mark.nightly), ("append", "parquet")],
)
def test_the_rows_are_sparks_once_all_is_read(spark: SparkSession, tmp_path: Path, mode: str, form: str) -> None:
    """The newest come first, the watermark waits, and plain Spark could go on from the offsets."""
    fill(tmp_path / "files", form)
    rows = by_key(source(spark, tmp_path / "files", form))
    plain, ours = Given(), Given()
    run(rows, tmp_path / "plain", mode, plain, mode="off")
    run(rows, tmp_path / "ours", mode, ours, mode="require", backlog="fresh-first", ingest_filesMinBytes="0")
    assert ours.last == plain.last
    assert len(ours.last) > 50
    assert [one["debt"] for one in ours.progress if one["rows"]] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert chosen(tmp_path / "ours") == [[f"{number:03}.{form}"] for number in (7, 0, 1, 2, 3, 4, 5, 6)]
    assert "debt" in offsets(tmp_path / "ours")[0]
    assert offsets(tmp_path / "ours")[-1] == offsets(tmp_path / "plain")[-1]
    watermarks = [one["watermark_us"] for one in ours.progress]
    assert watermarks == sorted(watermarks)
    if mode == "append":  # windows are given as their debt is paid, each once, by Spark's watermarks
        assert sum(len(batch) for batch in ours.batches) == len(ours.last)
        assert ours.watermarks[-1] == plain.watermarks[-1]
    else:
        newest = max(start for start, _ in plain.last)
        assert newest in {row["window"]["start"] for row in ours.batches[0]}


def test_what_arrives_meanwhile_comes_in_between(spark: SparkSession, tmp_path: Path) -> None:
    """Newer files in every other micro-batch, while those that were skipped are read; and rows say what they are."""
    fill(tmp_path / "files")
    rows = by_key(source(spark, tmp_path / "files"))
    plain, ours = Given(), Given()
    with settings(spark, mode="require", backlog="fresh-first", backlog_columns="on"):

        def keep(batch: DataFrame, number: int) -> None:
            ours.batches.append(batch.collect())
            if number in (0, 2):
                add(tmp_path / "files", FILES + number)

        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "ours")).outputMode("update")
        query = writer.foreachBatch(keep).start()
        try:
            query.processAllAvailable()
            ours.progress = pyslash.progress(query)
        finally:
            query.stop()
    run(rows, tmp_path / "plain", "update", plain, mode="off")
    assert ours.last == plain.last
    numbers = [int(name[:3]) for names in chosen(tmp_path / "ours") for name in names]
    # Those that came in the first and in the third one are read in the third and in the fifth one.
    assert numbers == [7, 0, 8, 1, 10, 2, 3, 4, 5, 6]
    assert ours.progress[0]["fraction"] == 1 / FILES
    assert ours.progress[-1]["fraction"] == 1.0
    for batch, figures in zip(ours.batches, ours.progress, strict=True):
        assert {row["_slash_tentative"] for row in batch} <= {figures["debt"] > 0}
        assert {row["_slash_fraction"] for row in batch} <= {figures["fraction"]}


def test_a_query_whose_unfinished_micro_batch_has_skipped_files_is_not_exported(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Plain Spark would repeat that one first."""
    fill(tmp_path / "files", count=1)
    rows = by_key(source(spark, tmp_path / "files"))
    run(rows, tmp_path / "ours", "append", Given(), mode="require")
    fill(tmp_path / "files", first=1)
    run_until(0, rows, tmp_path / "ours", Given())
    with pytest.raises(InvalidInputError, match="has skipped records of its source"):
        export(spark, str(tmp_path / "ours"))


@pytest.mark.parametrize("then", ["fresh-first", "ordered"])
def test_a_restart_goes_on_with_the_debt(spark: SparkSession, tmp_path: Path, then: str) -> None:
    """Also where the query has been set to read in order since; the failed micro-batch comes again as it was."""
    fill(tmp_path / "files")
    rows = by_key(source(spark, tmp_path / "files"))
    plain, ours = Given(), Given()
    run_until(2, rows, tmp_path / "ours", ours)
    assert (tmp_path / "ours" / "slash" / "files-skipped").exists()
    with pytest.raises(InvalidInputError, match="has skipped records of its source"):
        export(spark, str(tmp_path / "ours"))
    fill(tmp_path / "files", first=FILES, count=1)
    run(rows, tmp_path / "ours", "append", ours, mode="require", backlog=then)
    run(rows, tmp_path / "plain", "append", plain, mode="off")
    assert ours.last == plain.last
    assert sum(len(batch) for batch in ours.batches) == len(ours.last)
    assert ours.progress[0]["replayed"]
    assert ours.progress[0]["debt"] == FILES - 3
    assert ours.progress[-1]["debt"] == 0
    assert ours.watermarks[-1] == plain.watermarks[-1]
    # What came behind the debt is read first, or last.
    assert chosen(tmp_path / "ours")[3 if then == "fresh-first" else -1] == [f"{FILES:03}.json"]


def test_the_micro_batch_that_pays_the_last_debt_comes_again_in_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It alone tells Spark of the event times of what was read first: there is nothing newer."""
    fill(tmp_path / "files")
    rows = by_key(source(spark, tmp_path / "files"))
    plain, ours = Given(), Given()

    create = ManifestLog.create

    def fail(log: ManifestLog, manifest: Manifest) -> None:
        if manifest.epoch == FILES - 1:
            raise SinkError
        create(log, manifest)

    with monkeypatch.context() as until_then:
        until_then.setattr(ManifestLog, "create", fail)
        with pytest.raises(StreamingQueryException, match="SinkError"):
            run(rows, tmp_path / "ours", "append", ours, mode="require", backlog="fresh-first")
    run(rows, tmp_path / "ours", "append", ours, mode="require", backlog="ordered")
    run(rows, tmp_path / "plain", "append", plain, mode="off")
    assert ours.last == plain.last
    assert ours.watermarks[-1] == plain.watermarks[-1]


def test_a_fork_knows_of_files_that_a_micro_batch_under_way_has_skipped(spark: SparkSession, tmp_path: Path) -> None:
    """Its log has that one's files where Spark has compacted the log by them."""
    fill(tmp_path / "files", count=1)
    rows = by_key(source(spark, tmp_path / "files"))
    plain, forked = Given(), Given()
    with changed(spark, {"spark.sql.streaming.fileSource.log.compactInterval": "1"}):
        run(rows, tmp_path / "ours", "append", forked, mode="require")
        fill(tmp_path / "files", first=1)
        run_until(forked.progress[-1]["epoch"] + 1, rows, tmp_path / "ours", Given())
        save(str(tmp_path / "ours"), "now")
        fork(str(tmp_path / "ours"), "now", str(tmp_path / "fork"))
        run(rows, tmp_path / "fork", "append", forked, mode="require")
    run(rows, tmp_path / "plain", "append", plain, mode="off")
    assert forked.last == plain.last
    assert sum(len(batch) for batch in forked.batches) == len(forked.last)


def choose(checkpoint: Path, number: int, path: Path) -> None:
    """As a query does that is killed before Spark's offset log has it."""
    log = checkpoint / "sources" / "0"
    log.mkdir(parents=True, exist_ok=True)
    made = {"path": path.as_uri(), "timestamp": round(path.stat().st_mtime * 1000), "batchId": number}
    (log / str(number)).write_text(f"v1\n{json.dumps(made)}")
    (checkpoint / "slash").mkdir(exist_ok=True)
    (checkpoint / "slash" / "files-skipped").touch()


@pytest.mark.parametrize("then", ["fresh-first", "ordered"])
def test_a_kill_between_the_logs(spark: SparkSession, tmp_path: Path, then: str) -> None:
    """A file was chosen, and Spark's offset log does not have it: in order, those before it would be late."""
    apart(tmp_path / "files")
    rows = by_key(source(spark, tmp_path / "files"))
    plain, ours = Given(), Given()
    run(rows, tmp_path / "plain", "append", plain, mode="off")
    choose(tmp_path / "ours", 0, tmp_path / "files" / f"{FILES - 1:03}.json")
    run(rows, tmp_path / "ours", "append", ours, mode="require", backlog=then)
    assert ours.last == plain.last
    assert sum(len(batch) for batch in ours.batches) == len(ours.last)
    assert [one["debt"] for one in ours.progress if one["rows"]] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert ours.watermarks[-1] == plain.watermarks[-1]


def test_files_that_wait_for_too_long(spark: SparkSession, tmp_path: Path) -> None:
    """An error that leaves all as it was, or they are let go: progress says so, nobody reads them, nor deletes them."""
    fill(tmp_path / "files")
    rows = by_key(source(spark, tmp_path / "files", cleanSource="delete"))
    expires = {"mode": "require", "backlog": "fresh-first", "backlog_expire": "1s"}

    def slow(batch: DataFrame, number: int) -> None:
        time.sleep(1.2)  # the time of the test: until what was skipped is too old

    for _ in range(2):  # the second start finds what the first one has left
        with settings(spark, **expires):
            writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "ours")).outputMode("update")
            with pytest.raises(StreamingQueryException, match=r"BacklogExpiredError: 7 files have waited"):
                writer.foreachBatch(slow).trigger(availableNow=True).start().awaitTermination()
    given = Given()
    run(rows, tmp_path / "ours", "update", given, **expires, backlog_expired="shed")
    assert given.progress[0]["debt_shed"] == FILES - 1
    assert given.progress[-1]["debt"] == 0
    assert sum(one["rows"] for one in given.progress) == 0
    fill(tmp_path / "files", first=FILES, count=1)
    run(rows, tmp_path / "ours", "update", given, **expires, backlog_expired="shed")
    assert "debt" not in offsets(tmp_path / "ours")[-1]
    assert sum(one["rows"] for one in given.progress) == RECORDS
    assert {path.name for path in (tmp_path / "files").iterdir()} >= {
        f"{number:03}.json" for number in range(FILES - 1)
    }


def test_files_that_were_let_go_stay_when_the_rest_of_the_debt_is_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """Then the last entry of Spark's log has no debt behind it, and is still of files that nobody has read."""
    fill(tmp_path / "files")
    hour = time.time() + 3600
    waiting = add(tmp_path / "files", FILES, modified=hour)
    add(tmp_path / "files", FILES + 1, modified=hour + 1)
    rows = by_key(source(spark, tmp_path / "files", cleanSource="delete"))

    def take(batch: DataFrame, number: int) -> None:
        if number == 0:
            time.sleep(1.2)  # the time of the test: until what was skipped is too old, but for what is of a later hour
        elif number == 1:
            waiting.unlink()
        elif number == 2:
            add(tmp_path / "files", FILES + 2, modified=hour + 2)

    conf = {"mode": "require", "backlog": "fresh-first", "backlog_expire": "1s", "backlog_expired": "shed"}
    with settings(spark, **conf):
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "ours")).outputMode("update")
        query = writer.foreachBatch(take).start()
        try:
            query.processAllAvailable()
            progress = pyslash.progress(query)
        finally:
            query.stop()  # waits for what cleans up
    assert [one["debt"] for one in progress][:4] == [FILES + 1, 1, 0, 0]
    assert [one["debt_shed"] for one in progress][:4] == [0, FILES, 0, 0]
    assert [one["rows"] for one in progress][:4] == [RECORDS, 0, 0, RECORDS]
    assert {path.name for path in (tmp_path / "files").iterdir()} >= {f"{number:03}.json" for number in range(FILES)}


@pytest.mark.parametrize("files", [alike, apart])
def test_files_of_one_time_and_of_ages(spark: SparkSession, tmp_path: Path, files: Callable[[Path], None]) -> None:
    """None is read twice or forgotten; and one that comes too late for Spark is not read afterwards."""
    files(tmp_path / "files")
    rows = by_key(source(spark, tmp_path / "files"))
    plain, ours = Given(), Given()
    for late in (False, True):
        if late:  # also where the query was killed between the logs
            add(tmp_path / "files", FILES, modified=START - 30 * DAY)
            choose(tmp_path / "ours", FILES, add(tmp_path / "files", FILES + 1, modified=START + 900 * DAY))
        run(rows, tmp_path / "plain", "complete", plain, mode="off")
        run(rows, tmp_path / "ours", "complete", ours, mode="require", backlog="fresh-first")
        assert ours.last == plain.last
        assert sum(one["rows"] for one in ours.progress) == (FILES + late) * RECORDS
    assert ours.progress[0]["debt"] == FILES - 1


def test_files_that_are_deleted_before_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """They are no debt any more, and the watermark waits no longer."""
    fill(tmp_path / "files")
    rows = by_key(source(spark, tmp_path / "files"))
    given = Given()

    def delete(batch: DataFrame, number: int) -> None:
        for old in range(FILES - 1):
            (tmp_path / "files" / f"{old:03}.json").unlink(missing_ok=True)

    with settings(spark, mode="require", backlog="fresh-first"):
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "ours")).outputMode("append")
        query = writer.foreachBatch(delete).start()
        try:
            query.processAllAvailable()
            given.progress = pyslash.progress(query)
        finally:
            query.stop()
    assert [one["debt"] for one in given.progress][:2] == [FILES - 1, 0]
    assert given.progress[-1]["watermark_us"] == (START + FILES * 10) * 1_000_000 - 1_010_000
    assert offsets(tmp_path / "ours")[-1] == {"logOffset": 0}


@pytest.mark.parametrize("kind", ["cleaned", pytest.param("of a sink", marks=pytest.mark.nightly)])
def test_sources_with_more_to_do(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Files that Spark deletes once they have been read, and files that a sink's log names; of a glob, too."""
    fill(tmp_path / "files")
    plain, ours = Given(), Given()
    path: Path | str = tmp_path / "fi*"
    if kind == "of a sink":
        written = source(spark, tmp_path / "files").writeStream.format("parquet").trigger(availableNow=True)
        path = tmp_path / "written"
        written.option("checkpointLocation", str(tmp_path / "writer")).start(str(path)).awaitTermination()
        assert (path / "_spark_metadata").is_dir()
        found = rows = source(spark, path, "parquet")
    else:
        found, rows = source(spark, path), source(spark, path, cleanSource="delete")
    found, rows = (by_key(one.where("_metadata.file_size > 0")) for one in (found, rows))
    run(found, tmp_path / "plain", "update", plain, mode="off")
    run(rows, tmp_path / "ours", "update", ours, mode="require", backlog="fresh-first")
    assert ours.last == plain.last
    assert ours.progress[0]["debt"] == FILES - 1
    assert sum(one["rows"] for one in ours.progress) == FILES * RECORDS


def test_a_query_whose_rows_depend_on_their_order_reads_in_order(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says why; it runs on pyslash all the same."""
    fill(tmp_path / "files", count=3)
    shutil.copytree(tmp_path / "files", tmp_path / "others")
    both = source(spark, tmp_path / "files").unionByName(source(spark, tmp_path / "others"))
    timed = source(spark, tmp_path / "files").withWatermark("at", "1 second").groupBy(F.window("at", "8 seconds"))
    ordered = timed.agg(F.last("value"), F.count("*"))
    for number, (rows, why) in enumerate(
        [
            (source(spark, tmp_path / "files").dropDuplicates(["key"]), "depend on the order in which records come"),
            (by_key(both), "it reads files, files"),
            (ordered, "depend on the order in which records come: last(value)"),
            (by_key(source(spark, tmp_path / "files", LATESTFIRST="true")), "it reads files (latestFirst)"),
        ]
    ):
        given = Given()
        run(rows, tmp_path / str(number), "append", given, mode="require", backlog="fresh-first")
        assert why in caplog.text
        assert {one["debt"] for one in given.progress} == {0}
        assert "debt" not in offsets(tmp_path / str(number))[0]
        assert not (tmp_path / str(number) / "slash" / "files-skipped").exists()


def test_debt_from_before_its_rows_depended_on_their_order_is_paid(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of builds that took `last` for a function of records in any order."""
    fill(tmp_path / "files")
    timed = source(spark, tmp_path / "files").withWatermark("at", "1 second").groupBy(F.window("at", "8 seconds"))
    rows = timed.agg(F.last("value"), F.count("*").alias("count"))
    with monkeypatch.context() as before:
        before.setattr("pyslash.driver.backlog.obstacle", lambda sources, operators: "")
        run_until(1, rows, tmp_path / "ours", Given())
    assert "debt" in offsets(tmp_path / "ours")[-1]
    given = Given()
    run(rows, tmp_path / "ours", "append", given, mode="require", backlog="fresh-first")
    assert [one["debt"] for one in given.progress if one["rows"]] == [6, 5, 4, 3, 2, 1, 0]
    assert {row["count"] for batch in given.batches for row in batch} == {800}


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.nightly)])
def test_each_record_counts_once_under_kills(tmp_path: Path, kills: int) -> None:
    """The example, its driver killed at moments of chance: the last row of each window is the right one."""
    clicks, files = tmp_path / "clicks", 12 + 10 * kills
    clicks.mkdir()
    expected: Counter[tuple[str, str]] = Counter()
    for number in range(files):
        path, lines = clicks / f"{number:03}.json", []
        for click in range(100 * number, 100 * number + 100):
            at, page = datetime.fromtimestamp(START + click * 0.05, UTC), f"/{click % 5}"
            lines.append(json.dumps({"at": at.isoformat(), "page": page}))
            expected[at.strftime("%H:%M"), page] += 1
        path.write_text("\n".join(lines))
        os.utime(path, (START + number, START + number))
    conf = {
        **PLUGIN,
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.slash.mode": "require",
        "spark.slash.backlog": "fresh-first",
        "spark.slash.backlog.columns": "on",
    }
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": " ".join(f"--conf {key}={value}" for key, value in conf.items()) + " pyspark-shell"
    }
    command = [sys.executable, str(EXAMPLE), "--folder", str(clicks), "--files-per-trigger", "2"]
    command += ["--rows", str(tmp_path / "rows"), "--checkpoint", str(tmp_path / "checkpoint"), "--available-now"]
    draw, done = Random(7), 0
    for _ in range(kills):
        job = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
        aim = done + draw.randrange(2, 5)
        while job.poll() is None and done < aim:
            done = max((int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")), default=0)
            time.sleep(draw.random() * 0.05)
        assert job.poll() is None, "it has ended before it was killed"
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found, tentative = {}, set()
    for folder in sorted((tmp_path / "rows").iterdir()):
        for path in folder.glob("*.json"):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                found[row["start"][11:16], row["page"]] = row["count"]
                tentative.add(row["_slash_tentative"])
    assert found == expected
    assert tentative == {True, False}


@pytest.mark.parametrize("why", ["newest first", "many windows"])
def test_what_is_wrong_with_the_data_is_said_as_by_spark_where_spark_cannot_go_on(
    spark: SparkSession, tmp_path: Path, why: str
) -> None:
    fill(tmp_path / "in", count=1)
    rows = source(spark, tmp_path / "in").withColumn("value", F.expr("1 div (value - value)"))
    if why == "newest first":
        counts, conf = by_key(rows), {"backlog": "fresh-first"}
    else:
        counts, conf = rows.groupBy(F.window("at", "10 minutes", "1 second"), "key").agg(F.sum("value")), {}
    with settings(spark, mode="auto", **conf):
        writer = counts.writeStream.option("checkpointLocation", str(tmp_path / "c")).outputMode("update")
        started = writer.format("noop").trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException, match="DIVIDE_BY_ZERO") as failed:
            started.awaitTermination()
    assert "UnsupportedQueryError" not in str(failed.value)
