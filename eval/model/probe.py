"""Rates that no benchmark gives: what a merge task pays for each block, and the driver for each task."""

from __future__ import annotations

import os
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from eval.model.inputs import Rates
from pyslash._native import Accumulator, Arena, Head, Merger, Plan
from pyslash.plan.spec import AggregateSpec, ColumnSpec, PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.protocol import process
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.transport.shm import ShmTransport

_KEYS = 100_000
_SEGMENT_KEYS = 8_000  # fit one segment
_ARENA = 64 << 20
_QUERY = bytes(16)
_PLAN = PlanSpec(
    window=TimeWindow(10_000_000, 10_000_000, 0),
    columns=(ColumnSpec("int64", True),),
    keys=(1,),
    aggregates=(AggregateSpec("count"),),
).text
_FEW_TASKS, _MANY_TASKS = 20, 1_020
_REPEATS = 5
_PART = (0, 1 << 28)  # of the prefixes: a merge task's
_NOTHING = (0, 1)  # prefixes that next to no key has


def blocks(rates: Rates) -> Rates:
    """With `head_s` and `read_s` of a block of many segments, and `skip` of one, all in this process's own memory."""
    incarnation = secrets.token_bytes(16)
    handle = os.memfd_create("probe", os.MFD_CLOEXEC)
    try:
        arena = Arena.create(handle, _ARENA, incarnation)
        agent = _described(handle, incarnation)
        raw, segment = _sealed(arena, _KEYS), _sealed(arena, _SEGMENT_KEYS)
        head, one = Head(raw), Head(segment)
        ranges = head.ranges(0, 1, *_PART)
        transport = ShmTransport(_QUERY, b"")  # reads memory of its own: nobody is asked
        whole = arena.view(one.arena_offset, one.length)

        def skip() -> None:
            merger = Merger(Plan(_PLAN), [0], *_NOTHING)
            merger.add(segment, 0, whole)
            while merger.next() is not None:
                pass

        parse_s = _seconds(lambda: Head(raw).ranges(0, 1, *_PART), 2_000)
        read_s = _seconds(lambda: transport.read(agent, head.arena_offset, ranges), 2_000)
        skip_s = _seconds(skip, 200) / _SEGMENT_KEYS
        transport.close()
    finally:
        os.close(handle)
    return replace(rates, head_s=parse_s, read_s=read_s, skip=skip_s * rates.hz)


def tasks(rates: Rates) -> Rates:
    """With `task_s`: CPU time that a local session's JVM, driver and executor in one, spends on a task without work.

    CPU time, so that others on the machine do not matter; of both sides, so it is more than the driver's share.
    """
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]

    def job(count: int) -> float:
        began = _cpu_seconds(jvm)
        spark.range(0, count, 1, count).write.format("noop").mode("overwrite").save()
        return _cpu_seconds(jvm) - began

    try:
        for _ in range(_REPEATS):
            job(_MANY_TASKS)
        few, many = (statistics.median(job(count) for _ in range(_REPEATS)) for count in (_FEW_TASKS, _MANY_TASKS))
    finally:
        spark.stop()
    return replace(rates, task_s=max(0.0, (many - few) / (_MANY_TASKS - _FEW_TASKS)))


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process; the command's name in front may hold blanks."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _sealed(arena: Arena, keys: int) -> bytes:
    accumulator = Accumulator(Plan(_PLAN), -(1 << 62))
    times = pa.array(np.zeros(keys, np.int64)).cast(pa.timestamp("us", "UTC"))
    accumulator.add(pa.record_batch([times, pa.array(np.arange(keys))], names=["t", "k"]))
    return accumulator.seal(arena, _QUERY, 0, 0)


def _described(handle: int, incarnation: bytes) -> AgentDescriptor:
    """This process, as if it were an agent."""
    here = os.getpid()
    return AgentDescriptor(
        pid=here,
        start_time=process.start_time(here) or 0,
        fd=handle,
        arena_bytes=_ARENA,
        incarnation=incarnation.hex(),
        socket="",
        host="127.0.0.1",
        port=0,
        boot_id=process.boot_id(),
        log="",
        fabric="",
    )


def _seconds(act: Callable[[], object], calls: int) -> float:
    """CPU time of a call: the median of some rounds."""
    act()
    rounds = []
    for _ in range(_REPEATS):
        began = time.process_time()
        for _ in range(calls):
            act()
        rounds.append((time.process_time() - began) / calls)
    return statistics.median(rounds)
