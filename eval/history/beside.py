"""The application beside the query's: another process, another JVM; and what either application is asked for."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from eval.meter import MARK, Meter
from eval.one_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER_SECONDS = 900
END_SECONDS = 60

Ask = Callable[..., Any]
"""`ask(function, *arguments)`: what the function gives, called with a session before its arguments."""


def within(spark: SparkSession) -> Ask:
    """Whom to ask in this application."""
    return lambda function, *arguments: function(spark, *arguments)


@dataclass(frozen=True)
class Span:
    """From when to when, in seconds since 1970, and the processor seconds of the application beside the query's."""

    began: float
    ended: float
    cpu_seconds: float

    @property
    def figures(self) -> dict[str, float]:
        """For a record."""
        return {"seconds": self.ended - self.began, "cpu_seconds": self.cpu_seconds}


class Beside:
    """An application of its own."""

    def __init__(self, connection: Connection, mark: str) -> None:
        self._connection, self._mark = connection, mark

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function gives there.

        Raises:
            RuntimeError: the call failed there, or the process is gone.
            TimeoutError: there was no answer in time.
        """
        try:
            self._connection.send((function, arguments))
            if not self._connection.poll(ANSWER_SECONDS):
                raise TimeoutError(f"{function.__name__} had no result in {ANSWER_SECONDS} s")
            failed, answer = self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise RuntimeError(f"the application of {function.__name__} is gone; its log is above") from None
        if failed:
            raise RuntimeError(f"{function.__name__} failed: {answer}")
        return answer

    def timed(self, ask: Ask, function: Callable[..., Any], *arguments: Any) -> Span:
        """How long a call takes, here or in any application, and what this one does for it."""
        began = time.time()
        with Meter(self._mark) as meter:
            ask(function, *arguments)
        return Span(began, time.time(), meter.cpu_seconds)


@contextmanager
def beside(name: str, conf: dict[str, str], nice: int) -> Iterator[Beside]:
    """An application in a process of its own, which ends with the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    mark = secrets.token_hex(8)
    process = context.Process(target=_serve, args=(theirs, name, conf, nice), name=name)
    os.environ[MARK] = mark  # inherited by whatever it starts, so that the meter finds it
    try:
        process.start()
    finally:
        del os.environ[MARK]
    theirs.close()
    try:
        yield Beside(ours, mark)
    finally:
        ours.close()  # it ends when nobody asks any more
        process.join(END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(connection: Connection, name: str, conf: dict[str, str], nice: int) -> None:
    os.nice(nice)  # its JVM's and its agent's, too
    spark = session(name, conf)
    try:
        with suppress(EOFError):
            while True:
                function, arguments = connection.recv()
                try:
                    connection.send((False, function(spark, *arguments)))
                except Exception as error:  # whoever asked is told
                    traceback.print_exc()
                    connection.send((True, f"{type(error).__name__}: {error}"))
    finally:
        spark.stop()
