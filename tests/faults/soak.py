"""A soak: a stream of the Yahoo benchmark on a cluster whose processes are killed at random, and nothing may show.

    python -m tests.faults.soak --minutes 10 [--seed 1]

The random choices follow from the seed; what the processes are doing when they are struck does not.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from json import loads
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from eval.workloads.base import EPOCH_US
from tests.cluster.standalone import standalone_cluster
from tests.faults.application import ROOT, kept
from tests.faults.figures import Figures, executors
from tests.faults.live import WORKLOAD
from tests.faults.replay import replay
from tests.faults.strike import agent_of, all_children, command_of, kill, stop, workers_of
from tests.faults.tally import Tally, plain, table, tally
from tests.support.stream import in_order

# How often each fault, against the others. A driver costs ten seconds to start.
WEIGHTS = {"kill agent": 4, "kill executor": 3, "kill worker": 3, "stop agent": 2, "kill driver": 1}
STOP_SECONDS = 5
FAULTS_AN_EPOCH = 2
ROWS_A_FILE = 3000
EVENT_SECONDS_A_FILE = 2.0
FILE_SECONDS = 0.5
LATE_SHARE = 0.05
LATE_SECONDS = 60.0
EXECUTORS = 2
START_SECONDS = 120
FINISH_SECONDS = 240


@dataclass
class Soak:
    """One run over `seconds`, in an empty folder."""

    master: str
    folder: Path
    seconds: float
    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    figures: Figures = field(default_factory=Figures)
    recoveries: int = 0
    rows_in: int = 0
    late: int = 0  # rows that plain Spark drops of the same micro-batches
    _files: int = 0
    _driver: subprocess.Popen[bytes] | None = None
    _driver_killed: bool = False
    _struck_epochs: Counter[int] = field(default_factory=Counter)

    def run(self) -> None:
        """Feed, strike and sample until the time is over; then let the stream finish.

        Raises:
            RuntimeError: the driver ended by itself.
            TimeoutError: the stream did not start, or did not finish.
        """
        choose = random.Random(self.seed)
        (self.folder / "in").mkdir()
        WORKLOAD.write_extras(self.folder)
        for _ in range(4):
            self._feed()
        try:
            self._start_driver()
            begin = now = time.monotonic()
            due = {"feed": now, "sample": now, "strike": now + 5}
            while (now := time.monotonic()) < begin + self.seconds:
                if now >= due["feed"]:
                    self._feed()
                    due["feed"] += FILE_SECONDS
                if now >= due["sample"]:
                    self._sample()
                    due["sample"] += 1
                if now >= due["strike"]:
                    self._strike(choose.choices(list(WEIGHTS), list(WEIGHTS.values()))[0], choose)
                    due["strike"] = now + choose.uniform(2, 5)
                self._look_after_driver()
                time.sleep(0.05)  # the pace of this loop, which waits for nothing
            self._finish()
        finally:
            if self._driver is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self._driver.pid, signal.SIGKILL)
                self._driver.wait()

    def tally(self, spark: SparkSession) -> Tally:
        """What the stream has emitted against plain Spark's own over the same micro-batches, late rows and all."""
        rows, self.late = replay(
            spark,
            self.folder / "checkpoint",
            self.folder / "offsets",
            self.folder / "replay",
            lambda stream: WORKLOAD.query(spark, stream, self.folder),
        )
        name = f"soak of {self.seconds:.0f} s, {sum(self.faults.values())} faults"
        found = [row for _, *row in kept(self.folder / "out")]
        return tally(name, self.rows_in, map(tuple, found), map(plain, rows), struck=sum(self.faults.values()))

    def _feed(self, event_us: np.ndarray | None = None) -> None:
        generator = np.random.default_rng([self.seed, self._files])
        if event_us is None:
            begin = self._files * EVENT_SECONDS_A_FILE
            seconds = begin + generator.random(ROWS_A_FILE) * EVENT_SECONDS_A_FILE
            is_late = generator.random(ROWS_A_FILE) < LATE_SHARE
            seconds = np.maximum(seconds - is_late * generator.random(ROWS_A_FILE) * LATE_SECONDS, 0)
            event_us = EPOCH_US + (seconds * 1e6).astype(np.int64)
        path = self.folder / "in" / f"{self._files:06d}.parquet"
        hidden = path.with_name("." + path.name)
        pq.write_table(WORKLOAD.table(generator, event_us), hidden, row_group_size=1000)
        in_order(hidden, self._files)
        hidden.rename(path)
        self._files += 1
        self.rows_in += len(event_us)

    def _start_driver(self) -> None:
        """An application; returns when its first epoch is done."""
        progress = self.folder / "progress.json"
        progress.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.faults.live", self.master, str(EXECUTORS), str(self.folder)]
        with (self.folder / "driver.log").open("ab") as log:
            self._driver = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        self._driver_killed = False
        deadline = time.monotonic() + START_SECONDS
        while not progress.exists():
            if self._driver.poll() is not None:
                raise RuntimeError(f"the driver ended by itself: {self._log()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the driver finished no epoch within {START_SECONDS} s: {self._log()}")
            time.sleep(0.1)  # polling another process's state, up to the deadline

    def _look_after_driver(self) -> None:
        assert self._driver is not None
        if self._driver.poll() is None:
            return
        if not self._driver_killed:
            raise RuntimeError(f"the driver ended by itself: {self._log()}")
        self._start_driver()

    def _strike(self, fault: str, choose: random.Random) -> None:
        assert self._driver is not None
        found, epoch = executors(os.getpid()), self._progress().get("epoch", -1)
        # An epoch begins again three times at most: faster kills than that are no test of it.
        if not found or self._struck_epochs[epoch] == FAULTS_AN_EPOCH:
            return
        victim = choose.choice(found)
        with suppress(ValueError, ProcessLookupError):  # an executor that has no agent yet, or is gone by itself
            if fault == "kill agent":
                kill([agent_of(victim).pid])
            elif fault == "kill executor":
                kill([victim])
            elif fault == "kill worker":
                if not (workers := workers_of(victim)):
                    return
                kill(workers)
            elif fault == "stop agent":
                stop(agent_of(victim).pid, STOP_SECONDS)
            else:
                self._keep_recoveries()
                self._driver_killed = True
                kill([*self._jvms(), self._driver.pid])
            self.faults[fault] += 1
            self._struck_epochs[epoch] += 1

    def _jvms(self) -> list[int]:
        assert self._driver is not None
        return [pid for pid in all_children()[self._driver.pid] if b"SparkSubmit" in command_of(pid)]

    def _sample(self) -> None:
        assert self._driver is not None
        running = executors(os.getpid())
        agents = []
        for pid in running:
            with suppress(ValueError):
                agents.append(agent_of(pid).pid)
        self.figures.add_processes("driver", [self._driver.pid])
        self.figures.add_processes("driver JVM", self._jvms())
        self.figures.add_processes("executor", running)
        self.figures.add_processes("agent", agents)
        self.figures.add("arena bytes", self._progress().get("arena", 0))
        # Manifests are kept for a hundred epochs, as Spark keeps its own log.
        blocks = self.folder / "checkpoint" / "slash" / "blocks"
        self.figures.add("checkpoint files", sum(1 for _ in blocks.iterdir()) if blocks.exists() else 0)

    def _progress(self) -> dict[str, int]:
        path = self.folder / "progress.json"
        return loads(path.read_text()) if path.exists() else {}

    def _keep_recoveries(self) -> None:
        self.recoveries += self._progress().get("recoveries", 0)

    def _finish(self) -> None:
        """A last file closes every window; the driver reads all, and ends."""
        last = EPOCH_US + int(self._files * EVENT_SECONDS_A_FILE * 1e6) + 3600_000_000
        self._feed(np.full(64, last, np.int64))
        self._look_after_driver()
        (self.folder / "finish").touch()
        assert self._driver is not None
        try:
            status = self._driver.wait(FINISH_SECONDS)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the stream did not finish within {FINISH_SECONDS} s: {self._log()}") from None
        self._keep_recoveries()
        if status != 0:
            raise RuntimeError(f"the driver ended with status {status}: {self._log()}")

    def _log(self) -> str:
        return (self.folder / "driver.log").read_text(errors="replace")[-4000:]


def main() -> int:
    """Soak, print what was found; 1 if a row was lost, duplicated or wrong, or a figure grows or was not sampled."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="soak-") as text, standalone_cluster(Path(text), memory="2g") as master:
        folder = Path(text, "stream")
        folder.mkdir()
        soak = Soak(master, folder, given.minutes * 60, given.seed)
        soak.run()
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        found = soak.tally(spark)
        spark.stop()
    print(f"seed {given.seed}: {dict(soak.faults)}; {soak.recoveries} recoveries; {soak.late} late rows\n")
    print(table([found]), soak.figures.table(), sep="\n\n")
    wrong = [*soak.figures.growing(), *(f"{name}: hardly ever sampled" for name in soak.figures.missing())]
    print("", *wrong or ["no figure grows"], sep="\n")
    return 0 if found.exact and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
