"""A real pipeline from nothing: a broker, orders, one of the examples on pyslash, and what arrives, live.

    scripts/pipelines.sh && PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines append|merge|kafka

When most of the orders are there, the job is killed and started again. At the end the sink is compared with what plain
Python makes of the same orders.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from eval.broker import BrokerError, broker
from eval.pipelines import delta_table, topic
from eval.pipelines.job import EXAMPLES, Example, Job, JobError
from eval.pipelines.live import Live
from eval.pipelines.orders import Order, last, orders
from eval.pipelines.replay import Expected, Row, replay
from eval.pipelines.verdict import Verdict
from pyslash.demo.run import progress_of

ORDERS, REVENUE = "orders", "revenue"
HELD_BACK = 0.1  # the share of the orders that come after the job was killed
LEAST_BATCHES = 2  # before that
BATCHES = 6  # at least, by a bound of the orders in each
SHOW_SECONDS = 0.5
DEADLINE_SECONDS = 300


class Pipeline:
    """An example, its orders and its sink."""

    def __init__(self, example: Example, stream: list[Order], per_second: int, folder: Path, address: str) -> None:
        """`per_second` orders are sent; `folder` is empty."""
        self._example, self._stream, self._per_second = example, stream, per_second
        topic.create(address, ORDERS, REVENUE)
        self._producer = topic.Orders(address, ORDERS)
        self._sent = 0
        self._checkpoint, self._table = folder / "checkpoint", folder / "table"
        arguments = example.arguments(address, ORDERS, REVENUE, folder)
        self._job = Job(example.path, [*arguments, "--offsets-per-trigger", str(len(stream) // BATCHES)], folder)
        self._revenue = topic.Revenue(address, REVENUE)
        self._live = Live()

    def run(self) -> tuple[Verdict, Expected]:
        """From the first order to the comparison at the end.

        Raises:
            JobError: the job has ended by itself, or does not get on.
        """
        most = round(len(self._stream) * (1 - HELD_BACK))
        try:
            self._job.start()
            self._watch(lambda: self._sent == most and self._batches >= LEAST_BATCHES, most)
            self._job.kill()
            self._draw(self._live.end, "; now the job is killed, and started again")
            self._send(len(self._stream))
            self._producer.flush()
            self._job.start("--available-now")
            self._watch(lambda: not self._job.is_running(), most)
            self._draw(self._live.end)
            rows = self._rows()
        finally:
            self._job.kill()
            self._revenue.close()
        expected = replay(self._checkpoint, topic.partitions(self._stream))
        return self._example.verdict(rows, expected), expected

    def _watch(self, is_done: Callable[[], bool], most: int) -> None:
        """Send orders up to the `most`th at their pace, and show what arrives."""
        begin = time.monotonic()
        show_due = 0.0
        while not is_done():
            seconds = time.monotonic() - begin
            if seconds > DEADLINE_SECONDS:
                raise JobError(f"the job has not come to its end in {DEADLINE_SECONDS} s")
            self._job.is_running()
            self._send(min(round(seconds * self._per_second), most))
            if seconds >= show_due:
                self._draw(self._live.show)
                show_due = seconds + SHOW_SECONDS
            time.sleep(0.02)  # the pace of this loop, which waits for nothing

    def _send(self, up_to: int) -> None:
        if up_to > self._sent:
            self._producer.send(self._stream[self._sent : up_to])
            self._sent = up_to

    @property
    def _batches(self) -> int:
        return progress_of(self._checkpoint).batches

    def _rows(self) -> list[Row]:
        if self._example.to_kafka:
            return self._revenue.rows()
        return list(delta_table.revenue(self._table).elements())

    def _draw(self, show: Callable[[str, list[Row]], None], more: str = "") -> None:
        rows = self._rows()
        count = f"{len(rows):,} rows in the {self._example.sink}"
        show(f"{self._sent:,} orders sent, {self._batches} micro-batches, {count}{more}", rows)


def main() -> int:
    """Run one; 0 if the sink has just what it has to have."""
    parser = argparse.ArgumentParser(prog="python -m eval.pipelines", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("--orders", type=int, default=40_000)
    parser.add_argument("--per-second", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    example = EXAMPLES[given.example]
    print(f"{example.path.name} on pyslash: {example.what}; {given.per_second:,} orders a second from Kafka")
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    try:
        with broker(topic.PARTITIONS) as address, tempfile.TemporaryDirectory(prefix="pipeline-") as folder:
            stream = [*islice(orders(given.seed), given.orders - 1), last(given.orders - 1)]
            verdict, expected = Pipeline(example, stream, given.per_second, Path(folder), address).run()
    except (BrokerError, JobError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    is_right = verdict.complete if example.to_kafka else verdict.exact
    print(f"\n{expected.orders:,} orders read, {expected.dropped:,} of them too late for any open window")
    print(f"the {example.sink} against plain Python over the same orders: {verdict}")
    if example.to_kafka:
        print("(Spark's Kafka sink has no transactions: the micro-batch of the kill may be there twice)")
    print(f"{'right' if is_right else 'WRONG'}, after {time.monotonic() - begin:.0f} s")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
