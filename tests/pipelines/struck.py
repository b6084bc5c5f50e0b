"""The examples under kills in the middle of their writes, and what their sinks hold at the end.

    PYTHONPATH=build/pipelines/pyspark python -m tests.pipelines.struck --kills 100 [--seed 1]

Nothing inside of the application takes part: a strike watches the sink and the checkpoint on disk, or the topic, and
kills from outside when they are as it wants them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from eval.broker import broker
from eval.pipelines import delta_table, topic
from eval.pipelines.job import EXAMPLES, ROOT, Job
from eval.pipelines.orders import Order, last, orders
from eval.pipelines.replay import replay
from eval.pipelines.verdict import Verdict
from pyslash.protocol import process
from tests.faults.strike import agent_of, kill

# The sink has files or messages of a micro-batch, which is not committed there; or it has all of it, and Spark's own
# log does not know yet. Kafka knows no such difference.
WRITING, WRITTEN = "in the middle of its write", "between its write and Spark's commit"
DRIVER, AGENT = "driver", "agent"
ORDERS_A_SECOND = 300
ORDERS_A_BATCH = 20_000
POLL_SECONDS = 0.002  # a micro-batch is between two points for some milliseconds
# A driver that is to be killed lives too short to compile what it runs.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
WAIT_SECONDS = 600
FINISH_SECONDS = 900


@dataclass(frozen=True)
class Strike:
    """Who is killed (`DRIVER` or `AGENT`), at which point of whose write."""

    example: str
    point: str
    victim: str


def draw(seed: int) -> Iterator[Strike]:
    """Strikes without an end."""
    choose = random.Random(seed)
    while True:
        example = choose.choice(list(EXAMPLES))
        yield Strike(example, choose.choice([WRITING, WRITTEN]), choose.choice([DRIVER, DRIVER, AGENT]))


@dataclass
class Struck:
    """One run, in an empty folder; its topics must not be there yet."""

    folder: Path
    address: str
    seed: int
    strikes: Counter[Strike] = field(default_factory=Counter)
    spared: int = 0  # strikes on an agent that there was none of
    # Strikes on a driver that left a micro-batch in the sink that Spark's log does not have: it comes again.
    repeated: Counter[str] = field(default_factory=Counter)
    sent: list[Order] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Topics, and the application's arguments."""
        self._topics = f"orders-{self.seed}", f"revenue-{self.seed}"
        topic.create(self.address, *self._topics)
        self._orders = orders(self.seed)
        self._producer = topic.Orders(self.address, self._topics[0])
        self._revenue = topic.Revenue(self.address, self._topics[1])
        spec = {
            example.name: example.arguments(self.address, *self._topics, self.folder / name)
            for name, example in EXAMPLES.items()
        }
        (self.folder / "spec.json").write_text(json.dumps(spec))
        script = ROOT / "tests" / "pipelines" / "all_examples.py"
        arguments = [str(self.folder / "spec.json"), "--offsets-per-trigger", str(ORDERS_A_BATCH)]
        self._job = Job(script, arguments, self.folder, **INTERPRETED)
        self._begin = time.monotonic()

    def run(self, strikes: Iterable[Strike]) -> dict[str, Verdict]:
        """Strike one after the other, each on a job that has got on since the one before; then let it finish.

        Raises:
            JobError: the application has ended by itself.
            TimeoutError: it does not get on.
        """
        try:
            for strike in strikes:
                if not self._job.is_started:
                    self._job.start()
                self._strike(strike)
            self._job.kill()
            self._send(islice(self._orders, ORDERS_A_SECOND))
            self._send([last(len(self.sent))])
            self._producer.flush()
            self._job.start("--available-now")
            deadline = time.monotonic() + FINISH_SECONDS
            while self._job.is_running():
                self._check(deadline)
                time.sleep(0.05)  # polling another process, up to the deadline
        finally:
            self._job.kill()
        return dict(self._verdicts())

    def _strike(self, strike: Strike) -> None:
        """Wait for the point, and kill."""
        deadline = time.monotonic() + WAIT_SECONDS
        before = self._mark(strike)
        while self._mark(strike) <= before:
            self._check(deadline)
            self._job.is_running()
            due = round((time.monotonic() - self._begin) * ORDERS_A_SECOND) - len(self.sent)
            self._send(islice(self._orders, max(0, due)))
            time.sleep(POLL_SECONDS)
        if strike.victim == DRIVER:
            self._job.kill()
            self.repeated[strike.example] += self._has_uncommitted(strike.example)
        elif not self._kill_agent():
            self.spared += 1
            return
        self.strikes[strike] += 1

    def _kill_agent(self) -> bool:
        """Whether there was one: it may just be being started again."""
        try:
            agent = agent_of(self._job.pid)
        except ValueError:
            return False
        was_alive = process.is_alive(agent.pid, agent.start_time)
        kill([agent.pid])
        return was_alive

    def _mark(self, strike: Strike) -> int:
        """A number that grows when the point is reached."""
        if EXAMPLES[strike.example].to_kafka:
            return self._revenue.end()
        table = self.folder / strike.example / "table"
        return sum(1 for _ in (table.glob("*.parquet") if strike.point == WRITING else table.glob("_delta_log/*.json")))

    def _has_uncommitted(self, name: str) -> bool:
        checkpoint = self.folder / name / "checkpoint"
        begun, done = (
            max((int(path.name) for path in (checkpoint / log).glob("[0-9]*")), default=-1)
            for log in ("offsets", "commits")
        )
        if EXAMPLES[name].to_kafka:
            return begun > done
        return max(self._written(name), default=-1) > done

    def _written(self, name: str) -> list[int]:
        """The micro-batches that a table's transactions name, in their sequence."""
        return [batch for batch, _ in delta_table.versions(self.folder / name / "table") if batch is not None]

    def _send(self, some: Iterable[Order]) -> None:
        sent = list(some)
        self._producer.send(sent)
        self.sent += sent

    def _check(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the application does not get on: {self._job.log}")

    def _verdicts(self) -> Iterator[tuple[str, Verdict]]:
        for name, example in EXAMPLES.items():
            expected = replay(self.folder / name / "checkpoint", topic.partitions(self.sent))
            assert expected.orders == len(self.sent)
            if example.to_kafka:
                found = self._revenue.rows()
            else:
                found = list(delta_table.revenue(self.folder / name / "table").elements())
                # A repeated MERGE would not show in the rows: each micro-batch has one transaction.
                assert self._written(name) == list(range(expected.batches))
            yield name, example.verdict(found, expected)


def main() -> int:
    """Strike, and print what the sinks hold; 1 if that is not right."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipelines.struck", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with broker(topic.PARTITIONS) as address, tempfile.TemporaryDirectory(prefix="struck-") as folder:
        struck = Struck(Path(folder), address, given.seed)
        verdicts = struck.run(islice(draw(given.seed), given.kills))
    for strike, count in sorted(struck.strikes.items(), key=repr):
        print(f"{count:4} times the {strike.victim} was killed {strike.point}, {strike.example}")
    print(f"{struck.spared:4} times there was no agent to kill")
    print(f"{len(struck.sent):,} orders; micro-batches that came again, by sink: {dict(struck.repeated)}")
    for name, verdict in verdicts.items():
        print(f"{name:8}{verdict}")
    return 0 if is_right(verdicts) else 1


def is_right(verdicts: dict[str, Verdict]) -> bool:
    """No row lost or wrong anywhere, and none doubled but by Kafka's sink."""
    return all(one.complete if EXAMPLES[name].to_kafka else one.exact for name, one in verdicts.items())


if __name__ == "__main__":
    sys.exit(main())
