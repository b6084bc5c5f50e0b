"""A rehearsal: a job runs, and each query is looked at where the job would start it. None starts.

What the job does besides (batch queries, files that it writes) it does. No sink is opened or made: the writer's own
`start()` and `toTable()` are not called, and the JVM tells what it would start.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import uuid4

from pyspark.sql.streaming import DataStreamWriter, StreamingQuery, StreamingQueryManager

from pyslash.driver.start.plugin import PendingStart, pending
from pyslash.errors import InvalidInputError, SlashError, UnsupportedQueryError

Look = Callable[[PendingStart], None]
"""Takes a query that would start: what it would write, and what the job has set for it. Queries that it starts do."""
Found = TypeVar("Found")
Attribute = tuple[Any, str, Callable[..., Any]]
"""A class, and a function of it."""


def rehearse(job: str, arguments: Sequence[str], look: Look) -> None:
    """Run a job as `python job.py` would, and give each of its queries to `look`. The job gets one that has ended.

    Raises:
        BaseException: whatever the job or `look` raises.
    """
    argv, path = sys.argv, sys.path[:]
    sys.argv = [job, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(job)))
    try:
        with _no_query_starts(look):
            runpy.run_path(job, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path


class _FoundError(BaseException):
    """The job has come to its query, and ends here: what it would catch as an error, it does not catch."""


def rehearse_until(
    job: str, arguments: Sequence[str], wanted: str | None, look: Callable[[PendingStart], Found]
) -> Found:
    """Rehearse a job until it would start its query of this name, or its first one: what `look` gives of that.

    Raises:
        InvalidInputError: the job ends, or fails, without such a query.
        SlashError: `look` has raised it.
    """
    found: list[Found] = []

    def take(query: PendingStart) -> None:
        if wanted is None or query.settings.query_name == wanted:
            found.append(look(query))
            raise _FoundError

    how = "ends"
    try:
        rehearse(job, arguments, take)
    except _FoundError:
        return found[0]
    except SystemExit as left:
        how = f"ends with exit status {left.code}"
    except SlashError:
        raise
    except Exception as error:
        traceback.print_exc()
        how = f"fails with {type(error).__name__}: {error}"
    named = "a query" if wanted is None else f"a query named {wanted}"
    raise InvalidInputError(f"{job} {how} and has not started {named}: name a job, and its arguments, as it would run")


@contextmanager
def _no_query_starts(look: Look) -> Iterator[None]:
    def take(
        writer: DataStreamWriter,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        writer.options(**options)
        if outputMode is not None:
            writer.outputMode(outputMode)
        if queryName is not None:
            writer.queryName(queryName)
        query = pending(writer)
        with replaced(before):
            look(query)
        return EndedQuery(query.settings.query_name)

    instead: list[Attribute] = [
        (DataStreamWriter, "start", lambda self, path=None, *told, **options: take(self, *told, **options)),
        (DataStreamWriter, "toTable", lambda self, tableName, *told, **options: take(self, *told, **options)),
        # A job that waits for any query would wait for ever.
        (StreamingQueryManager, "awaitAnyTermination", lambda self, timeout=None: None if timeout is None else True),
    ]
    with replaced([*instead, *_refusals_of_clients()]) as before:
        yield


def _refusals_of_clients() -> list[Attribute]:
    """Queries of a client of Spark Connect would start in its server, where nobody looks at them first."""
    try:
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as ClientsWriter
    except Exception:  # what a client needs is not here, or broken (protobuf has errors of its own): the job is none
        return []

    def refuse(*_: Any, **__: Any) -> StreamingQuery:
        raise UnsupportedQueryError(
            "the job is a client of Spark Connect, whose queries start in its server: none was started. Have it ask "
            "the server, by pyslash.connect.explain(df) where it would start a query"
        )

    return [(ClientsWriter, "start", refuse), (ClientsWriter, "toTable", refuse)]


@contextmanager
def replaced(functions: Sequence[Attribute]) -> Iterator[list[Attribute]]:
    """In here, classes have these functions; gives those that they had."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in functions]
    for owner, name, function in functions:
        setattr(owner, name, function)
    try:
        yield before
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


class EndedQuery(StreamingQuery):  # type: ignore[misc]
    """What the job gets of a query that was not started: one that has ended, without a batch and without an error."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._id, self._run_id = str(uuid4()), str(uuid4())

    @property
    def id(self) -> str:
        """Nobody else's."""
        return self._id

    @property
    def runId(self) -> str:
        """Nobody else's."""
        return self._run_id

    @property
    def name(self) -> str | None:
        """As the job named it."""
        return self._name

    @property
    def isActive(self) -> bool:
        """It has ended."""
        return False

    @property
    def status(self) -> dict[str, Any]:
        """It has ended."""
        return {"message": "Not started", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def recentProgress(self) -> list[Any]:
        """It had no micro-batch."""
        return []

    @property
    def lastProgress(self) -> None:
        """It had no micro-batch."""

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """At once."""
        return None if timeout is None else True

    def processAllAvailable(self) -> None:
        """There is nothing to wait for."""

    def stop(self) -> None:
        """It does not run."""

    def explain(self, extended: bool = False) -> None:
        """It has no plan."""

    def exception(self) -> None:
        """It has none."""
