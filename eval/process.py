"""An engine in a process of its own, with its own JVM if it has one, asked to run workloads one at a time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from eval.engines import CannotRunError, Engine
from eval.meter import MARK, Meter
from eval.steady import Steady
from eval.stream import START_TO_END_SECONDS
from eval.workloads import Workload

ANSWER_SECONDS = START_TO_END_SECONDS + 300


class EngineError(Exception):
    """An engine could not do what it was asked; the message ends with the path of its log."""


class EngineProcess:
    """A live `engine`. What it prints goes to `log`."""

    def __init__(self, engine: Engine, memory: int, log: Path, conf: dict[str, str]) -> None:
        self.engine = engine
        self.log = log
        self.warm: set[str] = set()  # names of the queries that it has been warmed by
        self.conf = engine.settings(memory, conf)
        self._mark = secrets.token_hex(8)
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, engine, self.conf, log), name=engine.name)
        # Inherited by whatever the engine starts, so that the meter finds it.
        os.environ[MARK] = self._mark
        try:
            self._process.start()
        finally:
            del os.environ[MARK]
        theirs.close()

    def ask(self, what: str, workload: Workload, folder: Path, *more: Any) -> Any:
        """One of the `Runner`'s methods.

        Raises:
            CannotRunError: the engine refuses.
            EngineError: it raised there, gave no answer in time, or the process is gone.
        """
        try:
            self._connection.send((what, workload, folder, *more))
            if not self._connection.poll(ANSWER_SECONDS):
                raise EngineError(f"{self.engine.name}: no answer to {what} in {ANSWER_SECONDS} s; log: {self.log}")
            outcome, answer = self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise EngineError(f"{self.engine.name}: its process is gone; log: {self.log}") from None
        if outcome == "cannot":
            raise CannotRunError(answer)
        if outcome == "failed":
            raise EngineError(f"{self.engine.name}: {answer}; log: {self.log}")
        return answer

    def measure(self, workload: Workload, folder: Path, rule: Steady | None) -> dict[str, Any]:
        """The figures of one `run`, or of the steady part of one, and what all of the engine's processes took for them.

        `cpu_seconds` and `peak_bytes`; the latter of the whole run.

        Raises:
            CannotRunError, EngineError: as `ask`.
        """
        with Meter(self._mark) as meter:
            figures: dict[str, Any] = (
                self.ask("steady", workload, folder, rule) if rule else self.ask("run", workload, folder)
            )
        part = figures.pop("part", None)  # of the run, from when to when
        seconds = meter.cpu_between(*part) if part else meter.cpu_seconds
        return figures | {"cpu_seconds": seconds, "peak_bytes": meter.peak_bytes}

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()  # the process ends when nobody asks any more
        self._process.join(60)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(connection: Connection, engine: Engine, settings: dict[str, str], log: Path) -> None:
    """The process: one engine, one request after the other."""
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        runner = engine.open(settings)
    except Exception as error:
        traceback.print_exc()
        with contextlib.suppress(EOFError):
            connection.recv()  # whoever asks first hears why there will be no answers
            connection.send(_failure(error))
        return
    try:
        while True:
            what, *given = connection.recv()
            try:
                connection.send(("done", getattr(runner, what)(*given)))
            except Exception as error:  # a failed run is an answer: the other engines go on
                traceback.print_exc()
                connection.send(_failure(error))
    except EOFError:
        pass
    finally:
        runner.close()


def _failure(error: Exception) -> tuple[str, str]:
    first = (str(error).splitlines() or [""])[0]
    if isinstance(error, CannotRunError):
        return "cannot", first
    return "failed", f"{type(error).__name__}: {first}"
