"""How rows come to the query: as files, a Delta table or a topic, or found by the numbers that Spark makes."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.streaming.streams.case import EPOCH, POOLS, Case, File, Row
from tests.streaming.streams.topic import Topic

PARTS = ("0", "1", "__HIVE_DEFAULT_PARTITION__")
ENDING = {"delta": "parquet", "delta json": "parquet", "text": "txt"}


def kinds_of(source: str) -> list[str]:
    """Types of columns that a source can carry: of `POOLS`, all but one of ORC that Spark alone writes."""
    return [kind for kind in POOLS if (source, kind) != ("orc", "ntz")]


class Feed(Protocol):
    """One source of one run."""

    def add(self, batch: int) -> None:
        """Let the query see the next batch: all of it at once."""

    def read(self, spark: SparkSession) -> DataFrame:
        """Its rows, as a stream."""


def write(case: Case, target: Path) -> None:
    """The files of all batches, outside of what the query reads: `<source>/<batch>/<file>`, if it reads files;
    with parts, `<source>/<batch>/p=<part>/<file>`.
    """
    source, date = case.cell.source, 1_000_000_000
    if source not in _WRITERS:
        return
    for number, stream in enumerate(case.sources):
        for index, batch in enumerate(stream.batches):
            place = target / f"{number}" / f"{index:04d}"
            place.mkdir(parents=True)
            for position, rows in enumerate(batch):
                folder = place / f"p={PARTS[(index + position) % len(PARTS)]}" if case.parts else place
                folder.mkdir(exist_ok=True)
                path = folder / f"{position}.{ENDING.get(source, source)}"
                _WRITERS[source](case, rows, path)
                # The file source reads in the order of modification times.
                date += 1
                os.utime(path, (date, date))


def feed(case: Case, number: int, written: Path, place: Path, servers: str) -> Feed:
    """Source `number` of a case, for one run.

    Args:
        case: the stream.
        number: of the source.
        written: what `write` made.
        place: an empty folder.
        servers: of Kafka, if there are any.
    """
    source = case.cell.source
    if source == "rate":
        return _Numbers(case, number)
    if source.startswith("kafka"):
        return _Messages(case, number, servers)
    kind = _DeltaTable if source.startswith("delta") else _Folder
    return kind(case, number, written / f"{number}", place)


class _Folder:
    def __init__(self, case: Case, number: int, written: Path, place: Path) -> None:
        self._case, self._source, self._written, self._place = case, case.sources[number], written, place

    def add(self, batch: int) -> None:
        source = self._written / f"{batch:04d}"
        if source.is_dir():
            hidden = self._place.with_name(f"{self._place.name}.hidden")
            shutil.copytree(source, hidden, copy_function=os.link)
            hidden.rename(self._place / (f"b={batch}" if self._case.parts else f"{batch:04d}"))

    def read(self, spark: SparkSession) -> DataFrame:
        name = self._case.cell.source
        reader = spark.readStream.option("maxFilesPerTrigger", self._source.files).format(name)
        if name == "text":
            return _of_json(reader.load(f"{self._place}/*"), self._case)
        return reader.schema(self._case.ddl()).load(str(self._place) if self._case.parts else f"{self._place}/*")


class _DeltaTable:
    """A table whose log is written by hand: Delta itself would take a second for a commit."""

    def __init__(self, case: Case, number: int, written: Path, place: Path) -> None:
        self._case, self._source, self._written, self._place = case, case.sources[number], written, place
        self._version = 0
        (place / "_delta_log").mkdir()
        features = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
        schema = "value string" if case.cell.source == "delta json" else case.ddl()
        table = {
            "id": place.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(_delta_schema(schema)),
            "partitionColumns": [],
            "configuration": {},
        }
        self._commit([{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}, {"metaData": table}])

    def add(self, batch: int) -> None:
        source, adds = self._written / f"{batch:04d}", []
        for path in sorted(source.iterdir()) if source.is_dir() else ():
            name = f"{batch:04d}-{path.name}"
            os.link(path, self._place / name)
            size = path.stat().st_size
            file = {"path": name, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
            adds.append({"add": file})
        if adds:
            self._commit(adds)

    def read(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format("delta").option("startingVersion", 0)
        rows = reader.option("maxFilesPerTrigger", self._source.files).load(str(self._place))
        return _of_json(rows, self._case) if self._case.cell.source == "delta json" else rows

    def _commit(self, actions: list[dict[str, Any]]) -> None:
        log = self._place / "_delta_log"
        hidden = log / f".{self._version}"
        hidden.write_text("".join(json.dumps(action) + "\n" for action in actions))
        hidden.rename(log / f"{self._version:020d}.json")
        self._version += 1


class _Messages:
    """A topic. Its micro-batches are cut by numbers of messages, and so are not the batches of the case."""

    def __init__(self, case: Case, number: int, servers: str) -> None:
        self._case, self._source = case, case.sources[number]
        self._topic = Topic(servers, max(1, self._source.files))

    def add(self, batch: int) -> None:
        encode = _json if self._case.cell.source == "kafka json" else _csv
        if batch < len(self._source.batches):
            for partition, rows in enumerate(self._source.batches[batch]):
                self._topic.send(partition, (encode(self._case, row).encode() for row in rows))
            self._topic.flush()

    def read(self, spark: SparkSession) -> DataFrame:
        rows = sum(len(file) for batch in self._source.batches for file in batch)
        most = max(1, rows // len(self._source.batches))
        records = self._topic.read(spark, most)
        if self._case.cell.source == "kafka json":
            return _of_json(records, self._case)
        return records.select(F.from_csv(F.col("value").cast("string"), self._case.ddl()).alias("row")).select("row.*")


class _Numbers:
    """`rate-micro-batch` numbers its rows; each is the number of a row of the case, or of none.

    A start of the query with the trigger `availableNow` reads one micro-batch.
    """

    def __init__(self, case: Case, number: int) -> None:
        self._case, self._source = case, case.sources[number]

    def add(self, batch: int) -> None:
        """The source itself has one in each micro-batch."""

    def read(self, spark: SparkSession) -> DataFrame:
        batches = [[row for file in batch for row in file] for batch in self._source.batches]
        most = max(1, *map(len, batches))
        padded = [row for batch in batches for row in [*batch, *[None] * (most - len(batch))]]
        text = "[" + ",".join("null" if row is None else _json(self._case, row) for row in padded) + "]"
        table = F.from_json(F.lit(text), f"array<struct<{self._case.ddl().replace(' ', ':')}>>".replace(",:", ","))
        options = {"rowsPerBatch": most, "numPartitions": max(1, self._source.files), "startTimestamp": 0}
        numbers = spark.readStream.format("rate-micro-batch").options(**options).load()
        rows = numbers.select(F.get(table, F.col("value").cast("int")).alias("row"))
        return rows.where("row IS NOT NULL").select("row.*")


def _of_json(lines: DataFrame, case: Case) -> DataFrame:
    return lines.select(F.from_json(F.col("value").cast("string"), case.ddl()).alias("row")).select("row.*")


def _delta_schema(ddl: str) -> dict[str, Any]:
    names = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
    fields = [column.split(" ") for column in ddl.split(", ")]
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": names.get(kind, kind), "nullable": True, "metadata": {}} for name, kind in fields
        ],
    }


def _write_parquet(case: Case, rows: File, path: Path) -> None:
    pq.write_table(case.table(rows), path)


def _write_orc(case: Case, rows: File, path: Path) -> None:
    """What is a moment for Spark is a time without a zone in ORC."""
    table = case.table(rows)
    plain = [pa.timestamp("us") if pa.types.is_timestamp(kind) else kind for kind in table.schema.types]
    columns = [column.cast(kind) for column, kind in zip(table.columns, plain, strict=True)]
    pyarrow.orc.write_table(pa.table(columns, names=table.column_names), path)


def _write_json_in_parquet(case: Case, rows: File, path: Path) -> None:
    pq.write_table(pa.table({"value": pa.array([_json(case, row) for row in rows], pa.string())}), path)


def _write_json(case: Case, rows: File, path: Path) -> None:
    _write_lines((_json(case, row) for row in rows), path)


def _write_csv(case: Case, rows: File, path: Path) -> None:
    _write_lines((_csv(case, row) for row in rows), path)


def _write_lines(lines: Iterable[str], path: Path) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


_WRITERS: dict[str, Callable[[Case, File, Path], None]] = {
    "parquet": _write_parquet,
    "orc": _write_orc,
    "json": _write_json,
    "text": _write_json,
    "csv": _write_csv,
    "delta": _write_parquet,
    "delta json": _write_json_in_parquet,
}


def _json(case: Case, row: Row) -> str:
    """A record; one in two columns leaves its nulls out."""
    time, *names = case.schema().names
    members = [f'"{time}":"{_time(row[0])}"'] if row[0] is not None else []
    for place, (column, name, value) in enumerate(zip(case.columns, names, row[1:], strict=True)):
        if value is None:
            members += [f'"{name}":null'] if place % 2 else []
            continue
        text = _text(column[2:], value)
        is_number = column[2:] in _NUMBERS and not (isinstance(value, float) and not math.isfinite(value))
        members.append(f'"{name}":{text if is_number else json.dumps(text, ensure_ascii=bool(place % 2))}')
    return "{" + ",".join(members) + "}"


def _csv(case: Case, row: Row) -> str:
    """A record; nothing is null, and strings have quotes."""
    fields = ["" if row[0] is None else _time(row[0])]
    for name, value in zip(case.columns, row[1:], strict=True):
        text = "" if value is None else _text(name[2:], value)
        fields.append(f'"{text}"' if name[2:] in ("string", "binary") and value is not None else text)
    return ",".join(fields)


_NUMBERS = ("boolean", "byte", "short", "int", "long", "huge", "float", "double", "small", "large")


def _time(micros: int) -> str:
    return f"{(EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _text(kind: str, value: Any) -> str:
    """A value as the parsers of JSON and of CSV read it."""
    if kind == "boolean":
        return str(value).lower()
    if kind in ("float", "double"):
        return "NaN" if math.isnan(value) else "Infinity" if math.isinf(value) else repr(value)
    if kind == "binary":
        return base64.b64encode(value).decode()
    if kind == "timestamp":
        return _time(round((value - EPOCH) / timedelta(microseconds=1)))
    if kind in ("date", "ntz"):
        return str(value.isoformat())
    return str(value)
