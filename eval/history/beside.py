"""The application beside the query's: another process, another JVM; and what either application is asked for."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

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


@contextmanager
def beside(name: str, conf: dict[str, str], nice: int) -> Iterator[Ask]:
    """Whom to ask in an application of its own, which ends with the block.

    `ask` raises:
        RuntimeError: the call failed there, or the process is gone.
        TimeoutError: there was no answer in time.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, name, conf, nice), name=name)
    process.start()
    theirs.close()

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            ours.send((function, arguments))
            if not ours.poll(ANSWER_SECONDS):
                raise TimeoutError(f"{function.__name__} had no result in {ANSWER_SECONDS} s")
            failed, answer = ours.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise RuntimeError(f"the application of {function.__name__} is gone; its log is above") from None
        if failed:
            raise RuntimeError(f"{function.__name__} failed: {answer}")
        return answer

    try:
        yield ask
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


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """From when to when it ran, in seconds since 1970."""
    began = time.time()
    call()
    return began, time.time()
