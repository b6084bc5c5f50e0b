"""Flink: the same stream in Flink SQL over the same files, on this machine."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eval import oracle
from eval.engines.base import CORES, Engine, Runner
from eval.engines.flink_environment import ENVIRONMENT, ROOT, VERSION, class_path, make_environment
from eval.engines.flink_sql import job_of
from eval.steady import Steady
from eval.workloads import Nexmark, Workload

MODULE = "eval.engines.flink_job"


@dataclass(frozen=True)
class Flink(Engine):
    """A mini cluster with as many slots as there are cores. `backend`: `hashmap`, on the heap, or `rocksdb`."""

    backend: str = "hashmap"

    def settings(self, memory: int, given: dict[str, str]) -> dict[str, str]:
        """Flink's own keys, besides the heap; none of Spark's that the user gave."""
        return {
            "memory_gib": str(memory),
            "parallelism.default": str(CORES),
            "taskmanager.numberOfTaskSlots": str(CORES),
            "taskmanager.memory.managed.size": "1g",
            "table.local-time-zone": "UTC",
            "pipeline.object-reuse": "true",
            "state.backend.type": self.backend,
            "execution.checkpointing.interval": "10 s",
            "restart-strategy.type": "disable",  # or a job that fails begins anew for ever
            **self.conf,
        }

    def heaps_gib(self, memory: int) -> int:
        """One, and the managed memory."""
        return memory + 1

    def versions(self) -> dict[str, str]:
        """Flink's."""
        return {"flink": VERSION}

    def open(self, settings: dict[str, str]) -> Runner:
        """The process in Flink's environment, which is made unless it is there."""
        make_environment()
        return FlinkRunner(settings)


class FlinkRunner:
    """A process that runs statements; its JVM stays up from one to the next."""

    def __init__(self, settings: dict[str, str]) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JVM_ARGS": f"-Xmx{settings.pop('memory_gib')}g",
            "HADOOP_CLASSPATH": os.pathsep.join(map(str, class_path())),
        }
        self._checkpoints = tempfile.TemporaryDirectory(prefix="flink-checkpoints-")
        settings["execution.checkpointing.dir"] = f"file://{self._checkpoints.name}"
        answers, theirs = os.pipe()
        self._process = subprocess.Popen(
            [ENVIRONMENT / "bin" / "python", "-m", MODULE, str(theirs), json.dumps(settings)],
            stdin=subprocess.PIPE,
            text=True,
            env=environment,
            pass_fds=(theirs,),
        )
        os.close(theirs)
        self._answers = os.fdopen(answers)

    def run(self, workload: Workload, folder: Path) -> dict[str, Any]:
        """Stream all rows into a sink that drops what comes; the time is from when the job runs."""
        job = self._insert(workload, folder, "blackhole", {})
        return {"rows": workload.rows, **job, "rows_per_second": workload.rows / job["seconds"]}

    def steady(self, workload: Workload, folder: Path, rule: Steady) -> dict[str, Any]:
        """A job over as many micro-batches' files as it takes `rule.seconds` for, after one that has warmed the JVM.

        Flink has no micro-batches: the job is counted whole, its start with it, which is some seconds of a minute.
        """
        warm = workload.first(max(1, workload.batches * 20 // 100))
        job = self._insert(warm, folder, "blackhole", {})
        batches = min(workload.batches, math.ceil(warm.batches * rule.seconds / job["seconds"]))
        return self.run(workload.first(batches), folder)

    def check(self, workload: Workload, folder: Path) -> tuple[bool, int]:
        """Compare the windows that the oracle has: at the end of its input Flink closes all the others, too.

        Where Flink takes rows back that it has emitted, what all its changes come to is compared.
        """
        rows = oracle.latest(folder, workload.identity) if workload.output_mode == "update" else oracle.expected(folder)
        rows = with_windows_of_milliseconds(rows)
        with tempfile.TemporaryDirectory(prefix="check-", dir=folder.parent) as place:
            path = {"path": f"file://{place}"}
            if isinstance(workload, Nexmark):
                self._insert(workload, folder, "filesystem", path | {"format": "debezium-json"})
                result = final_rows(Path(place), rows.schema, workload.identity)
            else:
                self._insert(
                    workload, folder, "filesystem", path | {"format": "parquet", "parquet.utc-timezone": "true"}
                )
                result = oracle.read(Path(place))
        return oracle.same_rows(oracle.closed(result, rows), rows), rows.num_rows

    def close(self) -> None:
        """End the process and its JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._checkpoints.cleanup()

    def _insert(self, workload: Workload, folder: Path, connector: str, options: dict[str, str]) -> dict[str, Any]:
        """Run a job that writes the query's rows to a sink: its `seconds` and `part` (`eval.engines.flink_job.run`)."""
        files = sorted(str(path) for path in (folder / "rows").glob("*.parquet"))
        order = {
            # The folder may be of a longer stream.
            "files": files[: workload.batches * workload.files_per_batch],
            **asdict(job_of(workload, folder)),
            "connector": connector,
            "options": options,
        }
        return self._ask(order)

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            answer = self._answers.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError("Flink's process is gone")
        result: dict[str, Any] = json.loads(answer)
        if "error" in result:
            raise RuntimeError(result["error"])
        return result


def with_windows_of_milliseconds(rows: pa.Table) -> pa.Table:
    """Windows as Flink has them, whose event time has no microseconds: those of sessions begin and end with rows."""
    for at, field in enumerate(rows.schema):
        if field.name in ("window_start", "window_end"):
            rows = rows.set_column(at, field, pc.floor_temporal(rows[field.name], unit="millisecond"))
    return rows


def final_rows(folder: Path, schema: pa.Schema, identity: tuple[str, ...]) -> pa.Table:
    """The rows that the changes in files of Debezium's JSON come to, by position with the columns of `schema`.

    A row replaces that of the same `identity`: Flink need not take back what it updates.
    """
    keys = [schema.get_field_index(name) for name in identity]
    rows: dict[tuple[Any, ...], list[Any]] = {}
    for path in sorted(folder.rglob("part-*"), key=lambda path: int(path.name.rpartition("-")[2])):
        for line in path.read_text().splitlines():
            change = json.loads(line)
            row = list((change["after"] or change["before"]).values())
            key = tuple(row[at] for at in keys)
            if change["op"] == "c":
                rows[key] = row
            else:
                rows.pop(key, None)
    columns = [pa.array([row[at] for row in rows.values()]) for at in range(len(schema))]
    for at, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):
            columns[at] = columns[at].cast(pa.timestamp("us")).cast(oracle.UTC)
    return pa.table(columns, schema.names)
