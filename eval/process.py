"""An engine in a process and JVM of its own, asked to run streams one at a time."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from eval import stream
from eval.engines import COMMON, CORES, Engine
from eval.workloads import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER_SECONDS = stream.START_TO_END_SECONDS + 300


class EngineError(Exception):
    """An engine could not do what it was asked; the message ends with the path of its log."""


class EngineProcess:
    """A live session of `engine`. Its Spark log goes to `log`."""

    def __init__(self, engine: Engine, driver_memory: str, log: Path, conf: dict[str, str]) -> None:
        self.engine = engine
        self.log = log
        self.conf = {**COMMON, "spark.master": f"local[{CORES}]", "spark.driver.memory": driver_memory}
        self.conf |= engine.conf | conf
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, engine, self.conf, log), name=engine.name)
        self._process.start()
        theirs.close()

    def ask(self, what: str, workload: Workload, folder: Path) -> Any:
        """`run` or `check` of `eval.stream`.

        Raises:
            EngineError: it raised there, gave no answer in time, or the process is gone.
        """
        try:
            self._connection.send((what, workload, folder))
            if not self._connection.poll(ANSWER_SECONDS):
                raise EngineError(f"{self.engine.name}: no answer to {what} in {ANSWER_SECONDS} s; log: {self.log}")
            done, answer = self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise EngineError(f"{self.engine.name}: its process is gone; log: {self.log}") from None
        if not done:
            raise EngineError(f"{self.engine.name}: {answer}; log: {self.log}")
        return answer

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


def _serve(connection: Connection, engine: Engine, conf: dict[str, str], log: Path) -> None:
    """The process: one session, one request after the other."""
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Driver memory cannot be set once the JVM runs, so it goes to the command that starts it.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {conf['spark.driver.memory']} pyspark-shell"
    try:
        spark = _session(engine, conf)
    except Exception as error:
        traceback.print_exc()
        connection.recv()  # whoever asks first hears why there will be no answers
        connection.send((False, _first_line(error)))
        return
    try:
        while True:
            what, workload, folder = connection.recv()
            try:
                connection.send((True, getattr(stream, what)(spark, engine, workload, folder)))
            except Exception as error:  # a failed run is an answer: the other engines go on
                traceback.print_exc()
                connection.send((False, _first_line(error)))
    except EOFError:
        pass
    finally:
        spark.stop()


def _session(engine: Engine, conf: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"eval {engine.name}")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if engine.slash:
        import pyslash

        pyslash.enable(spark)
    return spark


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
