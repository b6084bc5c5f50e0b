"""How much faster a query is that may take a sample, and whether its bounds hold.

    scripts/pipelines.sh && PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines.shed [--rows 40000000]

JSON from a topic, counts, sums and means by the pseudonym of a page (a hash that takes more than all else), update
mode, in micro-batches of so many records as take several seconds. Both runs read the same topic; the second one may
take a sample, so that a micro-batch takes a second. Rates are of the micro-batches behind the first ones, in which the
controller finds its way.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.bars import Bar
from eval.broker import broker, on_cores
from eval.kafka import cores
from eval.pipelines import topic
from eval.pipelines.fresh import SCHEMA, produce, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).resolve().parents[2]
TOPIC, BATCHES, WARM = "events", 10, 4
PRODUCE, ALL, SAMPLE = "produce", "off", "bounded"
LEAST_TIMES, HOLD = 3.0, (0.93, 0.97)
AGGREGATES = ("count", "sum", "mean")


def by_page(records: DataFrame) -> DataFrame:
    """997 groups."""
    from pyspark.sql import functions as F

    events = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    pseudonym = F.sha2(F.concat("page_id", F.sha2("page_id", 512), F.sha2("address", 512)), 512)
    return events.groupBy(pseudonym.alias("page")).agg(
        F.count("*").alias("count"), F.sum("amount").alias("sum"), F.avg("amount").alias("mean")
    )


def run(address: str, shed: str, rows: int) -> dict[str, Any]:
    """The whole topic, in this process."""
    spark = session(shed=shed, **{"backlog.latency": "1s"})
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
    limit = {"maxOffsetsPerTrigger": str(rows // BATCHES)}
    last: dict[str, Any] = {}

    def keep(batch: DataFrame, _: int) -> None:
        last.update({row["page"]: row.asDict(recursive=True) for row in batch.collect()})

    with tempfile.TemporaryDirectory(prefix="shed-", dir=ROOT / "build") as place:
        writer = by_page(spark.readStream.format("kafka").options(**options, **limit).load()).writeStream
        writer = writer.option("checkpointLocation", place).outputMode("update").foreachBatch(keep)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    import pyslash

    batches = [one["durationMs"]["triggerExecution"] for one in query.recentProgress][WARM:BATCHES]
    truth = {row["page"]: row for row in by_page(spark.read.format("kafka").options(**options).load()).collect()}
    holds = {
        name: statistics.mean(
            last[page][f"{name}_95"]["low"] <= truth[page][name] <= last[page][f"{name}_95"]["high"] for page in truth
        )
        for name in (AGGREGATES if shed == SAMPLE else ())
    }
    rates = [one["sample_rate"] for one in pyslash.progress(query)][WARM:BATCHES]
    exact = all(last[page][name] == truth[page][name] for page in truth for name in AGGREGATES)
    spark.stop()
    return {
        "rows_per_second": rows / BATCHES * len(batches) / sum(batches) * 1000,
        "rate": statistics.mean(rates),
        "holds": holds,
        "exact": exact,
    }


def _child(what: str, address: str, rows: int) -> dict[str, Any]:
    command = [*on_cores(cores()[0]), sys.executable, "-m", "eval.pipelines.shed", "--one", what]
    done = subprocess.run(
        [*command, "--address", address, "--rows", str(rows)], capture_output=True, text=True, cwd=ROOT
    )
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m eval.pipelines.shed", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=40_000_000)
    for hidden in ("--one", "--address"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one = produce(given.address, TOPIC, given.rows) if given.one == PRODUCE else None
        print(json.dumps(one if one is not None else run(given.address, given.one, given.rows)))
        return
    with broker(topic.PARTITIONS, cores()[1]) as address:
        topic.create(address, TOPIC)
        _child(PRODUCE, address, given.rows)
        found = {}
        for shed in (ALL, SAMPLE):
            found[shed] = one = _child(shed, address, given.rows)
            print(f"shed={shed:8}{one['rows_per_second'] / 1e6:8.3f} M records/s, {one['rate']:.3f} of them taken")
    times = found[SAMPLE]["rows_per_second"] / found[ALL]["rows_per_second"]
    print("\nbars")
    print(Bar("records/s with a sample / with all", f"{times:.2f}x", f">= {LEAST_TIMES:g}x", times >= LEAST_TIMES))
    for name, held in found[SAMPLE]["holds"].items():
        low, high = HOLD
        print(Bar(f"intervals of {name} that hold", f"{held:.1%}", f"{low:.0%} to {high:.0%}", low <= held <= high))
    print(Bar("all records: values that differ", f"{int(not found[ALL]['exact'])}", "0", found[ALL]["exact"]))


if __name__ == "__main__":
    main()
