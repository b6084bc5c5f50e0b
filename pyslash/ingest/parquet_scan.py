"""Parquet read without Spark: splits of files into Arrow batches of exactly the rows that Spark would have read.

Anything that Arrow might read differently (another type in the file than in the table's schema, dates of old calendars,
a file that cannot be opened) is no error here but `OnlySpark`: Spark then reads it, or says what is wrong.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyslash.file_systems import FILE_ERRORS, open_location, reason_of
from pyslash.ingest.filter import Filter, columns_of
from pyslash.ingest.only_spark import OnlySpark, arrow_type_of
from pyslash.ingest.row_groups import YEAR_1900_DAYS, YEAR_1900_US, may_hold
from pyslash.ingest.static_join import StaticJoin
from pyslash.spark.scan_figures import ScanFigures

BATCH_ROWS = 1 << 16
_ANSWER_SECONDS = 20.0
_silent: set[str] = set()  # stores that have not answered this process
_LEGACY_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


class Split(NamedTuple):
    """A range of a file, in bytes. A row group belongs to the split that contains its middle."""

    path: str
    start: int
    length: int


@dataclass(frozen=True)
class ParquetScan:
    """A micro-batch's files, as `io.pyslash.ingest.FileScan` tells them.

    `columns` are (name, Spark type) of the event time and the plan's columns in order, `1.2` the third column of the
    second join's table, no name the moment 0 in every row; `time` is the column that has a watermark, if one has;
    `filters` drop rows before the watermark sees them, `late_filters` after that; `partitions` is
    what each task reads, without row groups that have no row for `filters` by their statistics if `skips` says so.
    `converts_int96`: what an INT96 means depends on who has written it and on the session's time zone.
    """

    columns: list[tuple[str, str]]
    time: tuple[str, str] | None
    filters: list[Any]
    late_filters: list[Any]
    joins: list[StaticJoin]
    partitions: list[list[Split]]
    skips: bool
    converts_int96: bool

    @classmethod
    def parse(cls, text: str) -> ParquetScan:
        """The scan that the text describes.

        Raises:
            OnlySpark: the text is a reason, or a type is none that files have.
        """
        told = json.loads(text)
        if "reason" in told:
            raise OnlySpark(told["reason"])
        partitions = [[Split(*split) for split in partition] for partition in told["partitions"]]
        columns = [(str(name), str(spark_type)) for name, spark_type in told["columns"]]
        joins = [StaticJoin.parse(join) for join in told["joins"]]
        scan = cls(
            columns=columns,
            time=tuple(told["time"]) or None,
            filters=told["filters"],
            late_filters=told["late_filters"],
            joins=joins,
            partitions=partitions,
            skips=told["skips"],
            converts_int96=told["converts_int96"],
        )
        for _, spark_type in scan.read_columns:
            arrow_type_of(spark_type)
        return scan

    @property
    def read_columns(self) -> list[tuple[str, str]]:
        """Names and types of every column that is read, those of filters and joins included."""
        joined = {f"{number}.{index}" for number, join in enumerate(self.joins) for index in range(len(join.columns))}
        columns = [column for column in self.columns if column[0] and column[0] not in joined]
        columns += [self.time] if self.time else []
        keys = [key for join in self.joins for key in join.keys]
        return [*columns, *keys, *columns_of([*self.filters, *self.late_filters])]


@dataclass
class ParquetReader:
    """Reads the splits of one task."""

    scan: ParquetScan
    figures: ScanFigures = field(default_factory=ScanFigures)

    def batches(self, splits: list[Split]) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filters, columns in the scan's order.

        Raises:
            OnlySpark: Spark might read one of the files differently.
        """
        for split in splits:
            try:
                yield from self._file(split)
            except (*FILE_ERRORS, ValueError) as error:
                raise OnlySpark(f"{split.path} cannot be read: {reason_of(error)}") from None

    def _file(self, split: Split) -> Iterator[pa.RecordBatch]:
        with _opened(split.path) as source:
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=True)
            wanted = _columns(parquet, self.scan, split.path)
            groups = _row_groups(parquet, split)
            if self.scan.skips:
                groups = [index for index in groups if may_hold(parquet.metadata.row_group(index), self.scan.filters)]
            self.figures.rows += sum(parquet.metadata.row_group(group).num_rows for group in groups)
            if not groups:
                return
            filters, late_filters = (Filter(texts) for texts in (self.scan.filters, self.scan.late_filters))
            for batch in parquet.iter_batches(BATCH_ROWS, groups, columns=list(wanted), use_threads=False):
                rows = self._joined(filters.apply(_exact(batch, wanted, split.path)), late=False)
                if self.scan.time is not None:
                    self.figures.add(rows.column(self.scan.time[0]))
                rows = self._joined(late_filters.apply(rows), late=True)
                names = [f"c{index}" for index in range(len(self.scan.columns))]
                moment = pa.repeat(pa.scalar(0, arrow_type_of("timestamp")), rows.num_rows)
                columns = [rows.column(name) if name else moment for name, _ in self.scan.columns]
                yield pa.record_batch(columns, names=names)

    def _joined(self, rows: pa.RecordBatch, late: bool) -> pa.RecordBatch:
        """A join finds its key in the files' columns and at most one row in its table: before or after others, and
        before or after filters, is the same.
        """
        for number, join in enumerate(self.scan.joins):
            if join.late == late:
                rows = join.apply(rows, number, {name for name, _ in self.scan.columns})
        return rows


def _opened(location: str) -> Any:
    """A file to read.

    Raises:
        OnlySpark: its store does not answer, as some clients go on asking for many minutes: Spark's own may know more.
    """
    store = "/".join(location.split("/", 3)[:3])
    if store in _silent:
        raise OnlySpark(f"{store} has not answered")
    answers = SimpleQueue[Any]()

    def ask() -> None:
        try:
            files, path = open_location(location)
            answers.put(files.open_input_file(path))
        except Exception as error:  # raised where it is waited for
            answers.put(error)

    if store.startswith(("/", "file:")):
        ask()
    else:
        threading.Thread(target=ask, name="pyslash file", daemon=True).start()
    try:
        found = answers.get(timeout=_ANSWER_SECONDS)
    except Empty:
        _silent.add(store)
        raise OnlySpark(f"{store} has not answered in {_ANSWER_SECONDS:g} s") from None
    if isinstance(found, Exception):
        raise found
    return found


def _columns(parquet: pq.ParquetFile, scan: ParquetScan, path: str) -> dict[str, pa.DataType]:
    """Names to read and the types that they are to have; every one is in the file as such."""
    metadata = parquet.metadata.metadata or {}
    if any(key in metadata for key in _LEGACY_CALENDAR):
        raise OnlySpark(f"{path} was written with the calendar of Spark 2")
    schema = parquet.schema_arrow
    physical = {
        leaf.path: leaf.physical_type for leaf in (parquet.schema.column(i) for i in range(len(parquet.schema)))
    }
    spelled = Counter(name.lower() for name in schema.names)
    wanted: dict[str, pa.DataType] = {}
    for name, spark_type in scan.read_columns:
        # Where Spark does not tell upper case from lower, it finds a column of either, and refuses two.
        if name not in schema.names or spelled[name.lower()] != 1:
            raise OnlySpark(f"{path} has not one column {name}, in upper or lower case")
        is_int96 = physical.get(name) == "INT96"
        if is_int96 and scan.converts_int96:
            raise OnlySpark(f"{path} has {name} as INT96, and spark.sql.parquet.int96TimestampConversion is on")
        found = _plain(schema.field(name).type)
        expected = arrow_type_of(spark_type)
        # An INT96 is an instant to Spark; Arrow gives it no zone.
        zoneless = expected == arrow_type_of("timestamp") and found == pa.timestamp("us")
        if found != expected and not (is_int96 and zoneless):
            raise OnlySpark(f"{path} has {name} as {found}, the table as {spark_type}")
        wanted[name] = expected
    return wanted


def _plain(found: pa.DataType) -> pa.DataType:
    """The type of the same values: Arrow's writers note in a file how they had them in memory, Spark reads no notes."""
    if pa.types.is_dictionary(found):
        return _plain(found.value_type)
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(found, found)


def _exact(batch: pa.RecordBatch, wanted: dict[str, pa.DataType], path: str) -> pa.RecordBatch:
    """The batch in the wanted types: an INT96 has no time zone yet, a column may be one of a dictionary."""
    if not wanted:
        return batch  # it has no columns, and still its rows: one that is made of no columns has none
    columns = []
    for name, expected in wanted.items():
        values = batch.column(name)
        if pa.types.is_temporal(expected) and len(values) > values.null_count:
            is_date = pa.types.is_date(expected)
            oldest = pc.min(values.view(pa.int32() if is_date else pa.int64())).as_py()
            if oldest < (YEAR_1900_DAYS if is_date else YEAR_1900_US):
                raise OnlySpark(f"{path} has times before 1900 in {name}")
        columns.append(values if values.type == expected else values.cast(expected))
    return pa.record_batch(columns, names=list(wanted))


def _row_groups(parquet: pq.ParquetFile, split: Split) -> list[int]:
    """The row groups whose middle lies in the split."""
    found = []
    for index in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(index)
        first = group.column(0)
        start = first.data_page_offset
        if first.has_dictionary_page and first.dictionary_page_offset is not None:
            start = min(start, first.dictionary_page_offset)
        stored = sum(group.column(i).total_compressed_size for i in range(group.num_columns))
        if split.start <= start + stored // 2 < split.start + split.length:
            found.append(index)
    return found
