"""`python -m eval scale-queries`: a whole query on N executors of one machine, and what each engine's state costs.

Executors of one core run in network namespaces of their own, the driver beside them. All engines run the same stream,
in turn in one application, and so does the source alone; the first round warms the machines up, the others count. One
machine cannot show the seconds of many, so what is counted is processor time of the driver, of agents and of executors
for a micro-batch.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval.bars import Bar
from eval.cluster.hosts import Host
from eval.cluster.standalone import Cluster
from eval.engines import ENGINES as ALL_ENGINES
from eval.meter import MARK
from eval.records import BASELINE
from eval.scale.command import add_common, keep, table
from eval.scale.network import network
from eval.scale.processes import AGENTS, DRIVER, EXECUTORS, ByKind
from eval.session import say
from eval.steady import executed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE, SLASH = "no state", "pyslash"
# In the order in which they take turns.
ENGINES = {
    SLASH: {"spark.slash.mode": "require"},
    "pyslash, repartition": {"spark.slash.mode": "require", "spark.slash.strategy": "repartition"},
    "RocksDB, tuned": {"spark.slash.mode": "off", **ALL_ENGINES[BASELINE].conf},
    SOURCE: {"spark.slash.mode": "off"},
}
_CHECKED, _WARM = 3, 2  # micro-batches whose rows are compared; that do not count. The first has every key
_TIDY_SECONDS = 2.0
_BATCH = "batch"
_FILES = 16  # of a micro-batch: at least as many as executors read at a time
_C1_ALONE = "-XX:TieredStopAtLevel=1"
_CLUSTER = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.memory": "640m",
    "spark.executor.cores": "1",
    # Or what is counted would be how 17 JVMs compile on one machine: by C2, for more rounds than anyone waits for.
    "spark.executor.extraJavaOptions": _C1_ALONE,
    "spark.driver.extraJavaOptions": _C1_ALONE,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.plugins": "io.pyslash.SlashPlugin",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.slash.transport": "tcp",
    "spark.slash.arena.size": "256m",
    "spark.slash.home.size": "256m",
}


@dataclass(frozen=True)
class Row:
    """An engine on so many executors: CPU ms of a micro-batch, and how long one takes (`batch_ms`), by the median.

    `added_ms` is what it takes beyond the source alone, in executors and agents, for each executor; `driver_added_ms`
    likewise in the driver.
    """

    executors: int
    engine: str
    driver_ms: float
    agents_ms: float
    executors_ms: float
    added_ms: float
    driver_added_ms: float
    batch_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--executors", type=int, nargs="+", default=[2, 16], metavar="N")
    parser.add_argument("--rows", type=int, default=160_000, help="of a micro-batch, of random keys")
    parser.add_argument("--keys", type=int, default=100_000, help="all of which have state before the measurement")
    parser.add_argument("--batches", type=int, default=8, help="of a turn that count, after two that do not")
    parser.add_argument(
        "--rounds", type=_rounds, default=3, help="of all stores; the first is short and does not count"
    )
    parser.add_argument("--stores", nargs="+", choices=[*ENGINES], default=[*ENGINES], help="of state, in turn")
    add_common(parser)


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < 2:
        raise argparse.ArgumentTypeError("the first round does not count: give 2 or more")
    return rounds


def main(args: argparse.Namespace) -> int:
    """Prints the table."""
    rows: list[Row] = []
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ps-") as folder:
        write(Path(folder) / "in", args.rows, args.keys, _WARM + args.batches)
        for count in args.executors:
            say(f"{count} executors")
            rows += measure(count, args, Path(folder), said)
    for lack in dict.fromkeys(said):
        say(f"NOT AS WANTED: {lack}")
    print(table(rows, _COLUMNS))
    print("\nbars", *bars(rows), sep="\n")
    keep(args.out, rows, said)
    return 0


def write(folder: Path, rows: int, keys: int, batches: int) -> None:
    """The files of a stream of Parquet, in the order of their times."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for batch in range(batches):
        of_batch = np.arange(keys) if batch == 0 else random.integers(0, keys, rows)
        for number, share in enumerate(np.array_split(of_batch, _FILES)):
            path = folder / f"{batch:04d}-{number:02d}.parquet"
            pq.write_table(pa.table({"k": share, "v": random.integers(0, 1000, len(share))}), path)
            os.utime(path, (1_700_000_000 + batch,) * 2)


def measure(count: int, args: argparse.Namespace, folder: Path, said: list[str]) -> list[Row]:
    """All engines on so many executors; `said` gets what is not as wanted.

    Raises:
        RuntimeError: as `drive`, or a process was never seen (`check_seen`).
    """
    import pyspark

    from pyslash.spark.jvm_bridge import jar_path

    mark = secrets.token_hex(8)
    with network(count, args.gbit, args.delay_ms, driver=True) as net, _marked(mark), ByKind(mark) as meter:
        said += net.lacks
        prefixes = {f"executor {number}": host.prefix for number, host in enumerate(net.hosts)}
        hosts = [Host(name, 1, address=host.address) for name, host in zip(prefixes, net.hosts, strict=True)]
        logs = folder / f"logs-{count}"
        cluster = Cluster(
            _Inside(prefixes), Path(pyspark.__path__[0]), net.driver, "1g", logs, folder / f"work-{count}"
        )
        # The driver has a process of its own, which nothing has warmed.
        spawned = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        with cluster.over(hosts) as master, spawned as driver:
            settings = _CLUSTER | {
                "spark.master": master,
                "spark.cores.max": str(count),
                "spark.driver.host": net.driver,
                "spark.driver.bindAddress": net.driver,
                "spark.sql.shuffle.partitions": str(count),
                "spark.jars": str(jar_path()),
            }
            engines = {name: ENGINES[name] for name in args.stores}
            turns = driver.submit(drive, settings, engines, folder, args.batches, args.rounds).result()
        has_agents = any(conf["spark.slash.mode"] == "require" for conf in engines.values())
        check_seen(meter.seen(), count, has_agents)
        took = {name: [_took(meter, span, args.batches) for span in spans[1:]] for name, spans in turns.items()}
    return [_row(count, name, took) for name in took]


@dataclass(frozen=True)
class Span:
    """From when to when (seconds since 1970) the micro-batches ran that count; the median of their milliseconds."""

    begin: float
    end: float
    batch_ms: float


def drive(
    settings: dict[str, str], engines: dict[str, dict[str, str]], folder: Path, batches: int, rounds: int
) -> dict[str, list[Span]]:
    """In the driver's process: the stream in `folder` on each engine, in so many rounds.

    Checkpoints stay in that folder: what an agent does beside epochs may outlive a query.

    Raises:
        RuntimeError: two engines have emitted different rows, or the stream has had other micro-batches.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.appName("eval scale-queries").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        sessions = {name: _session(spark, conf) for name, conf in engines.items()}
        sums = {name: _checksums(session, folder) for name, session in sessions.items() if name != SOURCE}
        if len({tuple(one) for one in sums.values()}) > 1:
            raise RuntimeError(f"engines differ in the first micro-batches: {sums}")
        spans: dict[str, list[Span]] = {name: [] for name in sessions}
        for number in range(rounds):
            say(f"  round {number + 1}")
            for name, session in sessions.items():
                _tidy(session)
                spans[name].append(_streamed(session, name, folder, batches if number else 1))
        return spans
    finally:
        spark.stop()


def _session(spark: SparkSession, conf: dict[str, str]) -> SparkSession:
    made = spark.newSession()
    for key, value in conf.items():
        made.conf.set(key, value)
    return made


def _tidy(session: SparkSession) -> None:
    """Whatever the engine before has left to clean up, in the driver and by its orders, is not the next one's cost."""
    jvm: Any = session._jvm
    jvm.System.gc()
    time.sleep(_TIDY_SECONDS)


def _checksums(session: SparkSession, folder: Path) -> list[Any]:
    """Of what the first micro-batches emit, on the way to warm executors."""
    from pyspark.sql import functions as F

    found: list[Any] = []

    def take(rows: DataFrame, _: int) -> None:
        found.append(tuple(rows.agg(F.count("*"), F.sum(F.xxhash64(*rows.columns).cast("decimal(20,0)"))).first()))

    rows = _rows(session, folder, _CHECKED)
    writer = grouped(rows).writeStream.outputMode("update").foreachBatch(take)
    writer = writer.option("checkpointLocation", tempfile.mkdtemp(dir=folder))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def _streamed(session: SparkSession, name: str, folder: Path, batches: int) -> Span:
    rows = _rows(session, folder, _WARM + batches)
    writer = (rows if name == SOURCE else grouped(rows)).writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", tempfile.mkdtemp(dir=folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    entries = executed(query.recentProgress)
    if len(entries) != _WARM + batches:
        raise RuntimeError(f"{name}: {len(entries)} micro-batches instead of {_WARM + batches}")
    counted = entries[_WARM:]
    took = [entry["durationMs"]["triggerExecution"] for entry in counted]
    begin, last = (datetime.fromisoformat(entry["timestamp"]).timestamp() for entry in (counted[0], counted[-1]))
    say(f"  {name}: {statistics.median(took):,.0f} ms a micro-batch")
    return Span(begin, last + took[-1] / 1000, statistics.median(took))


def _rows(session: SparkSession, folder: Path, batches: int) -> DataFrame:
    files = ",".join(f"{batch:04d}" for batch in range(batches))
    stream = session.readStream.schema("k bigint, v bigint").option("maxFilesPerTrigger", _FILES)
    return stream.parquet(f"{folder}/in/{{{files}}}-*")


def grouped(rows: DataFrame) -> DataFrame:
    """Sum, count and greatest of each key."""
    from pyspark.sql import functions as F

    return rows.groupBy("k").agg(F.sum("v"), F.count("*"), F.max("v"))


@dataclass(frozen=True)
class _Inside:
    """Runs a command in a host's network namespace."""

    prefixes: dict[str, tuple[str, ...]]

    def wrap(self, host: Host, command: Sequence[str]) -> list[str]:
        return [*self.prefixes.get(host.name, ()), *command]


@contextmanager
def _marked(mark: str) -> Iterator[None]:
    """What is started meanwhile has the mark in its environment."""
    os.environ[MARK] = mark
    try:
        yield
    finally:
        del os.environ[MARK]


def check_seen(seen: Mapping[str, int], executors: int, has_agents: bool) -> None:
    """What the meter has not seen would count as if it took no time.

    Raises:
        RuntimeError: it has seen no JVM of a driver, fewer of executors than there are, or no agent where there is one.
    """
    least = {DRIVER: 1, EXECUTORS: executors, AGENTS: int(has_agents)}
    if any(seen[kind] < wanted for kind, wanted in least.items()):
        found = ", ".join(f"{kind} {seen[kind]} of {wanted}" for kind, wanted in least.items())
        raise RuntimeError(f"no figures, as the meter has not seen all processes: {found} at least; run it again")


def _took(meter: ByKind, span: Span, batches: int) -> dict[str, float]:
    """Milliseconds of a micro-batch of a turn: of processors by kind, and its own."""
    cpu = {kind: 1000 * seconds / batches for kind, seconds in meter.between(span.begin, span.end).items()}
    return {**cpu, _BATCH: span.batch_ms}


def _row(count: int, name: str, took: dict[str, list[dict[str, float]]]) -> Row:
    def ms(of: str, *kinds: str) -> float:
        return statistics.median(sum(turn[kind] for kind in kinds) for turn in took[of])

    source = SOURCE if SOURCE in took else name
    return Row(
        count,
        name,
        round(ms(name, DRIVER), 1),
        round(ms(name, AGENTS), 1),
        round(ms(name, EXECUTORS), 1),
        round((ms(name, AGENTS, EXECUTORS) - ms(source, AGENTS, EXECUTORS)) / count, 1),
        round(ms(name, DRIVER) - ms(source, DRIVER), 1),
        round(ms(name, _BATCH)),
    )


def bars(rows: list[Row]) -> list[Bar]:
    """What pyslash adds, from the fewest executors to the most; none without both, or of the source alone."""
    found = {row.executors: row for row in rows if row.engine == SLASH and row.added_ms}
    if len(found) < 2:
        return []
    few, many = found[min(found)], found[max(found)]
    span = f"from {few.executors} to {many.executors} executors"
    wanted = [
        (f"added for each executor, {span}", few.added_ms, many.added_ms, 0.5),
        (f"added in the driver, {span}", few.driver_added_ms, many.driver_added_ms, 1.2),
        (f"an agent, {span}", few.agents_ms / few.executors, many.agents_ms / many.executors, 1.0),
    ]
    return [
        Bar(what, _growth(before, after), f"<= {most}x", after <= most * before) for what, before, after, most in wanted
    ]


def _growth(before: float, after: float) -> str:
    """What is less than nothing, as it takes less than the source alone, has no ratio."""
    return f"{after / before:.2f}x" if before > 0 <= after else f"{before:.0f} to {after:.0f} ms"


_COLUMNS = [
    ("executors", "executors", ""),
    ("engine", "engine", ""),
    ("driver, CPU ms", "driver_ms", ",.0f"),
    ("all agents", "agents_ms", ",.0f"),
    ("all executors", "executors_ms", ",.0f"),
    ("added for each executor", "added_ms", ",.0f"),
    ("added in the driver", "driver_added_ms", ",.0f"),
    ("a micro-batch, ms", "batch_ms", ",.0f"),
]
