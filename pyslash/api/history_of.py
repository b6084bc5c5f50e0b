"""The history of a job's stream: files that the job reads instead of the stream, while its query is looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamReader

from pyslash.driver.start.rehearsal import replaced
from pyslash.errors import InvalidInputError

_OF_FILES = ("csv", "json", "orc", "parquet", "text", "xml")
_DEFAULT = "parquet"


@contextmanager
def reading(history: str, format: str | None) -> Iterator[None]:
    """In here a job that reads a stream gets one of the files at `history`, with the stream's columns: of the `format`,
    or else as the stream's own files are, or of Parquet if it has none.

    The job raises InvalidInputError where it reads a second stream: nobody says which of them the files stand for.
    """
    read: list[str] = []

    def count(what: str) -> None:
        read.append(what)
        if len(read) > 1:
            raise InvalidInputError(
                f"the job reads more than one stream ({', '.join(read)}), and the history is of one. Leave it out, and "
                "give the job's own arguments by which it reads the history instead of the streams"
            )

    def of_its_columns(stream: DataFrame) -> DataFrame:
        reader = stream.sparkSession.readStream.schema(stream.schema)
        return load(reader.format(format or _DEFAULT), history)

    def files(name: str, reader: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def instead(self: DataStreamReader, path: str, *told: Any, **options: Any) -> DataFrame:
            count(f"{name} {path}")
            if format in (None, name):
                return reader(self, history, *told, **options)
            return of_its_columns(reader(self, path, *told, **options))

        return instead

    def loaded(self: DataStreamReader, path: str | None = None, *told: Any, **options: Any) -> DataFrame:
        count(f"load {path or 'of a source without a path'}")
        if path is not None and format is None:
            return load(self, history, *told, **options)
        return of_its_columns(load(self, path, *told, **options))

    def table(self: DataStreamReader, tableName: str) -> DataFrame:
        count(f"table {tableName}")
        return of_its_columns(before["table"](self, tableName))

    names = [name for name in (*_OF_FILES, "load", "table") if hasattr(DataStreamReader, name)]
    before: dict[str, Callable[..., DataFrame]] = {name: getattr(DataStreamReader, name) for name in names}
    load = before["load"]
    instead = {name: files(name, before[name]) for name in names if name in _OF_FILES}
    instead |= {"load": loaded, "table": table}
    with replaced([(DataStreamReader, name, function) for name, function in instead.items()]):
        yield
