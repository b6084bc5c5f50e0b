"""JSON or Avro from a Kafka topic into windows: what reading costs, what decoding, what aggregating, in one session.

    scripts/pipelines.sh && PYTHONPATH=build/pipelines/pyspark python -m eval.kafka [ysb] [--rows 4000000]

`users` counts and sums events by user; `avro` does the same with Avro in the place of JSON; `ysb` is the Yahoo
streaming benchmark as it was published: JSON of seven fields, a third of them views, joined with a static table of ads
and counted by campaign. Every engine has a process of its own and reads the same topic with Spark's consumer, in
micro-batches of the same offsets. The rows of all that aggregate are compared. CPU time is of the engine's JVM, so it
says on a busy machine too what a record costs; the broker has a JVM of its own, on cores that no engine uses where
there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval import oracle
from eval.bars import Bar
from eval.broker import avro, broker, connector, on_cores
from eval.digest import digest
from eval.engines import ENGINES
from eval.engines.base import CORES
from eval.engines.spark import SparkEngine, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROOT = Path(__file__).resolve().parents[1]
TOPIC, PARTITIONS, BATCHES, WARM = "events", 4, 8, 2
MEMORY_GIB = 3
BASELINE, LEAST = "spark-rocksdb", 3.0
# What each engine does with the records, and the engine of `eval` that it is.
PRODUCE = "produce"
READ, DECODE, AGGREGATE = "read", "decode", "aggregate"
RUNS = {
    "read": (READ, ENGINES[BASELINE]),
    "read and decode": (DECODE, ENGINES[BASELINE]),
    BASELINE: (AGGREGATE, ENGINES[BASELINE]),
    "slash, decoded by Spark": (
        AGGREGATE,
        replace(ENGINES["slash"], conf={"spark.slash.ingest.json": "spark", "spark.slash.ingest.avro": "spark"}),
    ),
    "slash, Kafka by Spark": (AGGREGATE, replace(ENGINES["slash"], conf={"spark.slash.ingest.kafka": "spark"})),
    "slash": (AGGREGATE, ENGINES["slash"]),
}


class InJson:
    """Records that are JSON of a schema."""

    schema: str

    @staticmethod
    def jars() -> list[str]:
        """What Spark needs for that."""
        return []

    @staticmethod
    def written(event: Column) -> Column:
        """The record of an event."""
        from pyspark.sql import functions as F

        return F.to_json(event)

    @classmethod
    def read(cls, record: Column) -> Column:
        """Inverse of `written`."""
        from pyspark.sql import functions as F

        return F.from_json(record.cast("string"), cls.schema)


class Users(InJson):
    """Events of 10,000 users, rows and sums by user."""

    schema = (
        "event_time timestamp, user_id string, page_id string, event_type string, address string, amount bigint, "
        "price double"
    )

    @classmethod
    def event(cls, number: Column, micros: Column) -> Column:
        """What is sent: the event of a number, at so many microseconds."""
        from pyspark.sql import functions as F

        kinds = F.array(*map(F.lit, ("view", "click", "purchase")))
        return F.struct(
            cls._time(micros).alias("event_time"),
            F.concat(F.lit("user-"), (F.abs(F.xxhash64(number)) % 10_000).cast("string")).alias("user_id"),
            F.concat(F.lit("page-"), (number % 997).cast("string")).alias("page_id"),
            F.element_at(kinds, (number % 3 + 1).cast("int")).alias("event_type"),
            F.lit("10.0.0.1").alias("address"),
            (number % 1000).alias("amount"),
            F.round(F.rand(1) * 100, 2).alias("price"),
        )

    @staticmethod
    def _time(micros: Column) -> Column:
        from pyspark.sql import functions as F

        return F.date_format(F.timestamp_micros(micros), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")

    @staticmethod
    def decoded(events: DataFrame) -> DataFrame:
        """What the aggregation needs of them."""
        return events.select("event_time", "user_id", "amount")

    @staticmethod
    def aggregated(events: DataFrame, delay: str = "10 seconds") -> DataFrame:
        """The query."""
        from pyspark.sql import functions as F

        timed = events.withWatermark("event_time", delay)
        grouped = timed.groupBy(F.window("event_time", "10 seconds"), "user_id")
        return grouped.agg(F.count("*").alias("count"), F.sum("amount").alias("sum"))


class UsersInAvro(Users):
    """The same events, and times as Avro has them."""

    schema = json.dumps(
        {
            "type": "record",
            "name": "Event",
            "fields": [
                {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                *(
                    {"name": name, "type": ["null", "string"]}
                    for name in ("user_id", "page_id", "event_type", "address")
                ),
                {"name": "amount", "type": ["null", "long"]},
                {"name": "price", "type": ["null", "double"]},
            ],
        }
    )

    @staticmethod
    def jars() -> list[str]:
        """What Spark needs for that."""
        return [avro()]

    @staticmethod
    def _time(micros: Column) -> Column:
        from pyspark.sql import functions as F

        return F.timestamp_micros(micros)

    @classmethod
    def written(cls, event: Column) -> Column:
        """The record of an event."""
        from pyspark.sql.avro.functions import to_avro

        return to_avro(event, cls.schema)

    @classmethod
    def read(cls, record: Column) -> Column:
        """Inverse of `written`."""
        from pyspark.sql.avro.functions import from_avro

        return from_avro(record, cls.schema)


class Ysb(InJson):
    """Views by campaign: 100 of ten ads, as published."""

    schema = (
        "user_id string, page_id string, ad_id string, ad_type string, event_type string, event_time string, "
        "ip_address string"
    )
    campaigns, ads_each = 100, 10

    @classmethod
    def event(cls, number: Column, micros: Column) -> Column:
        """What is sent: the event of a number, at so many microseconds."""
        from pyspark.sql import functions as F

        kinds = F.array(*map(F.lit, ("view", "click", "purchase")))
        ad_types = F.array(*map(F.lit, ("banner", "modal", "sponsored-search", "mail", "mobile")))
        chosen = F.abs(F.xxhash64(number))
        return F.struct(
            F.expr("uuid()").alias("user_id"),
            F.expr("uuid()").alias("page_id"),
            cls._id(chosen % (cls.campaigns * cls.ads_each), "ad").alias("ad_id"),
            F.element_at(ad_types, (number % 5 + 1).cast("int")).alias("ad_type"),
            F.element_at(kinds, (number % 3 + 1).cast("int")).alias("event_type"),
            F.floor(micros / 1000).cast("string").alias("event_time"),
            F.lit("1.2.3.4").alias("ip_address"),
        )

    @staticmethod
    def decoded(events: DataFrame) -> DataFrame:
        """What the aggregation needs of them."""
        return events.where("event_type = 'view'").select("ad_id", "event_time")

    @classmethod
    def aggregated(cls, events: DataFrame) -> DataFrame:
        """The query."""
        from pyspark.sql import functions as F

        ad = F.col("id")
        ads = events.sparkSession.range(cls.campaigns * cls.ads_each).select(
            cls._id(ad, "ad").alias("ad_id"), cls._id(F.floor(ad / cls.ads_each), "campaign").alias("campaign_id")
        )
        views = cls.decoded(events).withColumn("event_time", F.expr("timestamp_millis(CAST(event_time AS bigint))"))
        timed = views.join(F.broadcast(ads), "ad_id").withWatermark("event_time", "10 seconds")
        return timed.groupBy(F.window("event_time", "10 seconds"), "campaign_id").agg(F.count("*").alias("views"))

    @staticmethod
    def _id(number: Column, of: str) -> Column:
        """In the form of a UUID, always the same of a number."""
        from pyspark.sql import functions as F

        digits = F.md5(F.concat(F.lit(of), number.cast("string")))
        return F.concat_ws("-", *(F.substring(digits, at, size) for at, size in _UUID_PARTS))


_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
WORKLOADS: dict[str, type[Users | Ysb]] = {"users": Users, "avro": UsersInAvro, "ysb": Ysb}


def produce(address: str, workload: type[Users | Ysb], rows: int) -> dict[str, Any]:
    """Events of an hour, in this process."""
    from pyspark.sql import functions as F

    engine: Any = ENGINES[BASELINE]
    spark = SparkRunner(
        engine, {**engine.settings(MEMORY_GIB, {}), "spark.jars": ",".join((connector(), *workload.jars()))}
    ).spark
    number = F.col("id")
    event = workload.event(number, F.lit(1_700_000_000_000_000) + (number * (3_600_000_000 / rows)).cast("long"))
    for part in range(PARTITIONS):  # a partition is in order of time
        chosen = spark.range(part, rows, PARTITIONS, 1)
        records = chosen.select(workload.written(event).alias("value"), F.lit(part).alias("partition"))
        options = {"kafka.bootstrap.servers": address, "topic": TOPIC, "kafka.linger.ms": "50"}
        records.write.format("kafka").options(**options).option("kafka.batch.size", "262144").save()
    spark.stop()
    return {}


def query(records: DataFrame, workload: type[Users | Ysb], work: str) -> DataFrame:
    """What is done with the records."""
    from pyspark.sql import functions as F

    if work == READ:
        return records.select("value")
    events = records.select(workload.read(F.col("value")).alias("event")).select("event.*")
    return workload.decoded(events) if work == DECODE else workload.aggregated(events)


def run(name: str, address: str, workload: type[Users | Ysb], rows: int) -> dict[str, Any]:
    """One engine over the whole topic, in this process; the first micro-batches do not count."""
    work, engine = RUNS[name]
    assert isinstance(engine, SparkEngine)
    runner = SparkRunner(
        engine, {**engine.settings(MEMORY_GIB, {}), "spark.jars": ",".join((connector(), *workload.jars()))}
    )
    spark = runner.spark
    if engine.slash:
        spark.conf.set("spark.slash.mode", "require")
    options = {"subscribe": TOPIC, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(rows // BATCHES)}
    records = spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": address}, **options).load()
    jvm: Any = spark._jvm
    process = int(jvm.java.lang.ProcessHandle.current().pid())
    with tempfile.TemporaryDirectory(prefix="kafka-", dir=ROOT / "build") as place:
        writer = query(records, workload, work).writeStream.option("checkpointLocation", f"{place}/checkpoint")
        sink = writer.format("parquet").option("path", f"{place}/rows") if work == AGGREGATE else writer.format("noop")
        started = sink.trigger(availableNow=True).start()
        begun: tuple[int, float] | None = None
        while started.isActive:
            last = started.lastProgress
            if begun is None and last is not None and last["batchId"] >= WARM - 1:
                begun = last["batchId"], _cpu_seconds(process)
            time.sleep(0.05)
        started.awaitTermination()
        cpu = _cpu_seconds(process)
        found = digest(oracle.flat(spark.read.parquet(f"{place}/rows"))) if work == AGGREGATE else None
    progress = [one for one in started.recentProgress if one["numInputRows"]]
    assert begun is not None
    counted = [one for one in progress if one["batchId"] > begun[0]]
    records_counted = sum(one["numInputRows"] for one in counted)
    figures = {
        "rows": sum(one["numInputRows"] for one in progress),
        "rows_per_second": records_counted / sum(one["durationMs"]["triggerExecution"] for one in counted) * 1000,
        "cpu_us": (cpu - begun[1]) * 1e6 / records_counted,
        "digest": found and astuple(found),
    }
    spark.stop()
    return figures


def _cpu_seconds(process: int) -> float:
    """Of all threads of a process, by its stat file."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def cores() -> tuple[list[int], list[int]]:
    """Those of the engines, and those of the broker: others, where this machine has some."""
    mine = sorted(os.sched_getaffinity(0))
    return mine[:CORES], mine[CORES:] or mine


def in_a_process(name: str, address: str, workload: str, rows: int) -> dict[str, Any]:
    """Runs one of `RUNS`, or `PRODUCE`, in a process of its own: its figures."""
    command = [sys.executable, "-m", "eval.kafka", workload]
    command += ["--one", name, "--address", address, "--rows", str(rows)]
    command = [*on_cores(cores()[0]), *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{name} failed: run {' '.join(command)} to see why")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m eval.kafka", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", nargs="?", choices=WORKLOADS, default="users")
    parser.add_argument("--rows", type=int, default=4_000_000)
    for hidden in ("--one", "--address"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        address, workload = given.address, WORKLOADS[given.workload]
        if given.one == PRODUCE:
            print(json.dumps(produce(address, workload, given.rows)))
        else:
            print(json.dumps(run(given.one, address, workload, given.rows)))
        return
    with broker(PARTITIONS, cores()[1]) as address:
        in_a_process(PRODUCE, address, given.workload, given.rows)
        runs = {}
        for name in RUNS:
            runs[name] = one = in_a_process(name, address, given.workload, given.rows)
            rate = one["rows_per_second"] / 1e6
            print(f"{name:26}{rate:8.3f} M records/s {one['cpu_us']:8.2f} us of CPU each", flush=True)
    results = {json.dumps(one["digest"]) for one in runs.values() if one["digest"]}
    ratio = runs["slash"]["rows_per_second"] / runs[BASELINE]["rows_per_second"]
    print("\nbars")
    print(Bar("rows of all that aggregate", f"{len(results)} result(s)", "1 result", len(results) == 1))
    print(Bar(f"slash / {BASELINE}", f"{ratio:.2f}x", f">= {LEAST:g}x", ratio >= LEAST))


if __name__ == "__main__":
    main()
