"""The history of a job's stream: files that the job reads instead of the stream, while its query is looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamReader

from pyslash.driver.start.rehearsal import replaced
from pyslash.errors import InvalidInputError

_OF_FILES = ("csv", "json", "orc", "parquet", "text", "xml")
_DEFAULT = "parquet"


@dataclass
class _Told:
    """What a reader has been told before it loads: its format, and whether its path is an option."""

    format: str | None = None
    has_path: bool = False


@contextmanager
def reading(history: str, file_format: str | None) -> Iterator[None]:
    """In here a job that reads a stream gets one of the files at `history`, with the stream's columns.

    They are of `file_format`, or else as the stream's own files are, or of Parquet if it has none.

    The job raises InvalidInputError where it reads a second stream: nobody says which of them the files stand for.
    """
    read: list[str] = []
    readers: WeakKeyDictionary[DataStreamReader, _Told] = WeakKeyDictionary()

    def count(what: str) -> None:
        read.append(what)
        if len(read) > 1:
            raise InvalidInputError(
                f"the job reads more than one stream ({', '.join(read)}), and the history is of one. Leave it out, and "
                "give the job's own arguments by which it reads the history instead of the streams"
            )

    def of_its_columns(stream: DataFrame) -> DataFrame:
        reader = stream.sparkSession.readStream.schema(stream.schema)
        return load(reader.format(file_format or _DEFAULT), history)

    def files(name: str, reader: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def instead(self: DataStreamReader, path: str, *told: Any, **options: Any) -> DataFrame:
            count(f"{name} {path}")
            if file_format in (None, name):
                return reader(self, history, *told, **options)
            return of_its_columns(reader(self, path, *told, **options))

        return instead

    def formatted(self: DataStreamReader, source: str) -> DataStreamReader:
        readers.setdefault(self, _Told()).format = source
        return before["format"](self, source)

    def with_option(self: DataStreamReader, key: str, value: Any) -> DataStreamReader:
        readers.setdefault(self, _Told()).has_path |= key.lower() == "path"
        return before["option"](self, key, value)

    def with_options(self: DataStreamReader, **options: Any) -> DataStreamReader:
        for key, value in options.items():
            with_option(self, key, value)
        return self

    def loaded(
        self: DataStreamReader, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> DataFrame:
        own = readers.get(self, _Told())
        count(f"load {path or ('of a path' if own.has_path else 'of a source without a path')}")
        has_files = path is not None or own.has_path
        of_stream = format or own.format or self._spark.conf.get("spark.sql.sources.default", _DEFAULT)
        if not has_files or (file_format is not None and file_format.lower() != of_stream.lower()):
            return of_its_columns(load(self, path, format, schema, **options))
        if path is None:
            before["option"](self, "path", history)
        return load(self, None if path is None else history, format, schema, **options)

    def table(self: DataStreamReader, tableName: str) -> DataFrame:
        count(f"table {tableName}")
        return of_its_columns(before["table"](self, tableName))

    names = [
        name for name in (*_OF_FILES, "format", "option", "options", "load", "table") if hasattr(DataStreamReader, name)
    ]
    before: dict[str, Callable[..., Any]] = {name: getattr(DataStreamReader, name) for name in names}
    load = before["load"]
    instead = {name: files(name, before[name]) for name in names if name in _OF_FILES}
    instead |= {"format": formatted, "option": with_option, "options": with_options, "load": loaded, "table": table}
    with replaced([(DataStreamReader, name, function) for name, function in instead.items()]):
        yield
