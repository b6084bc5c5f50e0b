"""Every executor of a session, asked through Spark: its JVM starts its Python on `probe.py`, so no Python worker
has to start first. A Python without pyslash, of another version, or none at all, is an answer like any other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from pyspark.sql import SparkSession

from pyslash.plan.catalyst import answer

_PREFIX = "pyslash probe: "
# $0 and $1: an executor's Python and the program. It never fails, or else Spark would try again and end the job.
_SHELL = '"$0" -c "$1" 2>&1 || echo "it ended with status $?"'
_CLOCK = "date +%s.%N"
_PROBE_SECONDS = 120
_STABLE_SECONDS = 3.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Executor:
    """As the driver knows it."""

    id: str
    host: str


@dataclass(frozen=True)
class Answer:
    """What was heard of an executor: `facts` of its Python, or `error`, why there are none.

    `skew_seconds` is by how much its clock is ahead of the driver's, at least; negative: behind.
    """

    executor: Executor
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    skew_seconds: float = 0.0


def executors_of(session: SparkSession, seconds: float) -> list[Executor]:
    """Those that have come when no other came for a while; none within `seconds` gives an empty list."""
    deadline = time.monotonic() + seconds
    found: list[Executor] = []
    since = time.monotonic()
    while time.monotonic() < deadline:
        now = sorted(_registered(session), key=lambda executor: (len(executor.id), executor.id))
        if now != found:
            found, since = now, time.monotonic()
        elif found and time.monotonic() - since >= _STABLE_SECONDS:
            break
        time.sleep(_POLL_SECONDS)  # polling another process's state, up to the deadline
    return found


def _registered(session: SparkSession) -> Iterator[Executor]:
    jvm: Any = session._jvm
    master = session.sparkContext.master
    is_local = master == "local" or master.startswith("local[")
    for one in answer(jvm.io.pyslash.agent.Executors.known(is_local)):
        yield Executor(one["id"], one["host"])


def ask(session: SparkSession, executor: Executor) -> Answer:
    """One executor's answer. Whatever goes wrong there is the answer's error."""
    program = files("pyslash.inspect.doctor").joinpath("probe.py").read_text()
    python = session.sparkContext.pythonExec
    try:
        lines = _piped(session, executor, ["sh", "-c", _SHELL, python, program])
        before = time.time()
        clock = float(_piped(session, executor, ["sh", "-c", _CLOCK])[0])
        after = time.time()
    except Exception as error:
        # Of any kind: from py4j, from the job, or from what the executor printed.
        return Answer(executor, error=f"it ran no task: {_reason(error)}")
    skew = min(clock - before, 0.0) + max(clock - after, 0.0)
    facts = next((json.loads(line.removeprefix(_PREFIX)) for line in lines if line.startswith(_PREFIX)), None)
    if facts is None:
        return Answer(executor, error=f"{python} did not run: {' '.join(lines)}", skew_seconds=skew)
    if facts["executor"] not in (executor.id, None):
        return Answer(executor, error=f"executor {facts['executor']} ran its task", skew_seconds=skew)
    return Answer(executor, facts, facts.get("error", ""), skew)


def _reason(error: Exception) -> str:
    """One line; of what the JVM has thrown its first cause: py4j's own words name a call."""
    thrown: Any = getattr(error, "java_exception", None)
    while thrown is not None and thrown.getCause() is not None:
        thrown = thrown.getCause()
    text = str(error if thrown is None else thrown.toString()).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _piped(session: SparkSession, executor: Executor, command: list[str]) -> list[str]:
    """What a program prints that this executor's JVM starts."""
    jvm: Any = session._jvm
    context: Any = session.sparkContext._jsc
    where = jvm.PythonUtils.toSeq([f"executor_{executor.host}_{executor.id}"])
    located = jvm.PythonUtils.toSeq([jvm.scala.Tuple2("", where)])
    rdd = context.sc().makeRDD(located, jvm.scala.reflect.ClassTag.AnyRef()).toJavaRDD()
    seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
    return list(rdd.pipe(command).collectAsync().get(_PROBE_SECONDS, seconds))
