"""The configuration keys of pyslash: every `spark.slash.*` key, its default and what it means, in one table.

Values are read from a session's runtime configuration, so that `spark-submit --conf`, a properties file and
`spark.conf.set` all work; a query keeps the values that it started with.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyslash.errors import ConfigError

PREFIX = "spark.slash."
ARENA_SIZE = PREFIX + "arena.size"

_SIZE = re.compile(r"^(\d+)\s*([kmgtp]?)i?b?$", re.IGNORECASE)
_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_MOST_BYTES = (1 << 63) - 1
_TIME = re.compile(r"^(\d+)\s*([a-z]*)$", re.IGNORECASE)
_MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_DAY = 86_400
# So many tasks share what the driver would just merge alone.
_TASKS_FOR_A_DRIVER = 4


def parse_bytes(text: str) -> int:
    """Bytes of a size in Spark's spelling.

    >>> parse_bytes("2g"), parse_bytes("64 MiB"), parse_bytes("100")
    (2147483648, 67108864, 100)
    """
    match = _SIZE.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size such as 512m or 2g")
    size = int(match[1]) * _UNIT[match[2].lower()]
    if size > _MOST_BYTES:
        raise ValueError(f"{text!r} is more than {_MOST_BYTES} bytes")
    return size


def parse_seconds(text: str, most: int = _DAY) -> int:
    """Whole seconds, rounded up, of a time in Spark's spelling; a number alone is of seconds.

    >>> parse_seconds("30"), parse_seconds("30s"), parse_seconds("2min"), parse_seconds("1500ms")
    (30, 30, 120, 2)
    """
    match = _TIME.match(text.strip())
    unit = _MICROSECONDS.get(match[2].lower() or "s") if match else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not a time such as 30s, 2min or 500ms")
    seconds = -(-int(match[1]) * unit // 1_000_000)
    if not 0 < seconds <= most:
        raise ValueError(f"{text!r} is not between 1s and {most}s")
    return seconds


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in allowed:
            raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")
        return text.lower()

    return parse


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or not 0 < int(text) < 1 << 31:
        raise ValueError(f"{text!r} is not a positive number")
    return int(text)


def _count(text: str) -> int:
    if not text.strip().isdecimal() or not int(text) < 1 << 31:
        raise ValueError(f"{text!r} is no number of blocks")
    return int(text)


def _positive_bytes(text: str) -> int:
    size = parse_bytes(text)
    if size == 0:
        raise ValueError(f"{text!r} is not a positive size")
    return size


def _start_seconds(text: str) -> int:
    return parse_seconds(text, most=600)  # `MAX_DEADLINE_SECONDS` of an agent's start


def _expiry(text: str) -> int | None:
    return None if text.strip().lower() == "never" else parse_seconds(text, most=365 * _DAY)


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not true or false")
    return text.strip().lower() == "true"


def _switch(text: str) -> bool:
    return _choice("off", "on")(text.strip()) == "on"


@dataclass(frozen=True)
class Key:
    """One configuration key: its full name, default (as text), parser and meaning."""

    name: str
    default: str
    parse: Callable[[str], Any]
    doc: str


_KEYS = (
    Key(
        "mode",
        "auto",
        _choice("auto", "require", "off"),
        "`auto`: a query that pyslash does not cover runs on plain Spark, and the log says why; "
        "`require`: such a query fails to start; `off`: pyslash leaves every query alone.",
    ),
    Key(
        "ingest",
        "auto",
        _choice("auto", "files", "rows"),
        "How rows reach native code. `files`: native code reads Parquet where it reads exactly Spark's rows; `rows`: "
        "Spark reads, and the row bridge hands its rows over inside the executor's JVM. `auto` uses `files` for large "
        "micro-batches of Parquet, and `rows` otherwise.",
    ),
    Key(
        "ingest.filesMinBytes",
        "16m",
        parse_bytes,
        "Spark reads micro-batches with fewer bytes of Parquet, because a Python job would cost more than it saves.",
    ),
    Key(
        "ingest.json",
        "auto",
        _choice("auto", "spark"),
        "Who parses the `from_json` and the JSON files below an aggregation. `auto`: native code parses the records "
        "that it is certain to read as Spark does, and Spark's parser all others; `spark`: Spark parses all of them.",
    ),
    Key(
        "ingest.csv",
        "auto",
        _choice("auto", "spark"),
        "Who parses the CSV files below an aggregation: `auto` and `spark` as for `spark.slash.ingest.json`.",
    ),
    Key(
        "ingest.avro",
        "auto",
        _choice("auto", "spark"),
        "Who decodes the `from_avro` below an aggregation: `auto` and `spark` as for `spark.slash.ingest.json`.",
    ),
    Key(
        "ingest.kafka",
        "auto",
        _choice("auto", "spark"),
        "Who fetches the records of Kafka topics below an aggregation. `auto`: executors fetch them by Kafka's own "
        "client past Spark's reader, which takes over where an offset is missing; `spark`: Spark's reader fetches all.",
    ),
    Key(
        "transport",
        "auto",
        _choice("auto", "verbs", "shm", "tcp"),
        "How a merge reads partial state from an agent. `auto` chooses for each peer: `shm` (shared memory) on the "
        "same host, `verbs` (RDMA) if both hosts have a device on the same fabric, `tcp` otherwise; the log says why. "
        "Any other value forces that transport, and a peer that cannot use it is an error.",
    ),
    Key(
        "strategy",
        "merge",
        _choice("merge", "repartition"),
        "`merge`: tasks aggregate the rows that they read, and partial state is merged when windows close; "
        "`repartition`: rows first go to the owner of their key, over the same transport, and are aggregated there. "
        "`repartition` is the baseline that `merge` is measured against. Both give the same results, and a query may "
        "change it when it restarts.",
    ),
    Key(
        "arena.size",
        "2g",
        _positive_bytes,
        "Size of each executor's arena, the memory that holds its partial state. "
        "It is an upper bound: pages are allocated when they are used. More than the machine has is an error.",
    ),
    Key(
        "session.rewriteBytes",
        "32m",
        parse_bytes,
        "Open sessions are rewritten, one entry for each, when blocks hold more bytes of sessions than this and four "
        "times what they held after the last rewrite.",
    ),
    Key(
        "buffers.foldEpochs",
        "32",
        _positive,
        "Of groups that no watermark ends, buffers of Spark's own code are merged every so many epochs: one comes to "
        "stand for all that a group has.",
    ),
    Key(
        "fold.blocks",
        "4",
        _count,
        "An executor whose tasks have made more blocks than this in an epoch folds them, on all its cores, before they "
        "are stored and read. `0`: none does. Where tasks turn out to have few keys in common, epochs go without for a "
        "while.",
    ),
    Key(
        "processors",
        "on",
        _switch,
        "Whether pyslash runs the `transformWithState` of a processor in Python, `transformWithStateInPandas` and "
        "`applyInPandasWithState`. `on`: it does, where it covers them "
        "([Operators](operators.md#your-own-state-in-python)); `off`: plain Spark does. State takes up to so many "
        "times its size, in Python's memory, as an executor has cores.",
    ),
    Key(
        "spill.dir",
        "",
        str.strip,
        "Directory on each executor's host to which the agent spills partial state that does not fit the arena. "
        "Empty: the first of the executor's local directories.",
    ),
    Key(
        "spill.maxBytes",
        "8g",
        parse_bytes,
        "Most bytes of partial state that an agent spills. Beyond it a batch fails before its commit. 0: never spill.",
    ),
    Key(
        "agent.startTimeout",
        "30s",
        _start_seconds,
        "How long an executor waits for its agent to start; 10 minutes at most.",
    ),
    Key(
        "agent.callTimeout",
        "30s",
        parse_seconds,
        "How long a call to an agent may take. Then it fails with an error that names the agent.",
    ),
    Key(
        "merge.driverBytes",
        "1m",
        parse_bytes,
        "The driver does a merge itself, without a Spark job, if the result is smaller than this. Larger ones have a "
        "task for a quarter of it at least. 0: as many tasks as there are cores, however small they are.",
    ),
    Key(
        "merge.taskBytes",
        "64m",
        _positive_bytes,
        "Bytes of partial state that one merge task should read. They set the number of merge tasks, between the "
        "number of cores and 32 times that.",
    ),
    Key(
        "home.size",
        "1g",
        parse_bytes,
        "Memory of each executor for the groups of a query in update or complete mode, or the keys of a deduplication; "
        "of each Python worker for the state of processors. With them an epoch reads its own changes only. A query "
        "whose groups need more memory merges what it emits from all blocks. 0: keep none.",
    ),
    Key(
        "durability",
        "checkpoint",
        _choice("checkpoint", "replica", "both", "off"),
        "Where an epoch's partial state is stored, besides its own agent, before Spark logs the epoch. "
        "`checkpoint`: in the query's checkpoint; it survives executors and drivers. `replica`: in the memory of a "
        "standby, the agent of another executor, on another host if there is one; it survives one lost executor at a "
        "time, but not the application, and a standby's arena holds a second share of the state. "
        "`both`: the share of a lost executor comes back from its standby, all else from the checkpoint. `off`: "
        "nowhere; a loss ends the query.",
    ),
    Key(
        "checkpoint.timeout",
        "120s",
        parse_seconds,
        "How long an agent may take to write its part of an epoch to the checkpoint, or to restore its share of it.",
    ),
    Key(
        "snapshot.rate",
        "64m",
        _positive_bytes,
        "Bytes a second at which an agent writes all that it holds to the checkpoint from time to time, beside epochs.",
    ),
    Key(
        "late",
        "",
        str.strip,
        "A folder for the rows that come too late for the query, which Spark drops in silence: the columns that the "
        "operator reads, how late a row was and by which watermark, each row once (docs/late-rows.md). A micro-batch "
        "with late rows is read once more for that. Empty: they are dropped.",
    ),
    Key(
        "late.format",
        "parquet",
        _choice("parquet", "orc", "json", "avro", "delta"),
        "The format of the files in `spark.slash.late`. `avro` and `delta` need their packages, as in any job.",
    ),
    Key(
        "backlog",
        "ordered",
        _choice("ordered", "fresh-first"),
        "How a query reads its Kafka topics or its files when it is behind. `ordered`: as Spark does, the oldest "
        "first; `fresh-first`: the newest first, and those that were skipped in micro-batches between, until none is "
        "left (docs/fresh-first.md). A query for which that cannot be done reads in order, and the log says why.",
    ),
    Key(
        "backlog.latency",
        "2s",
        parse_seconds,
        "With `spark.slash.backlog=fresh-first` or `spark.slash.shed=bounded`: about how long a micro-batch may take. "
        "Of records that cannot be read within it some are skipped.",
    ),
    Key(
        "backlog.expire",
        "never",
        _expiry,
        "How long records or files may wait to be read behind newer ones: less than the topic or the folder keeps "
        "them. `never`: any time.",
    ),
    Key(
        "backlog.expired",
        "error",
        _choice("error", "shed"),
        "What becomes of records or files that have waited for longer. `error`: the query ends, and they are still to "
        "be read; `shed`: nobody reads them, and progress says how many they were.",
    ),
    Key(
        "backlog.columns",
        "off",
        _switch,
        "Whether rows for `foreachBatch` have two more columns: `_slash_fraction`, how much of what there was to read "
        "since the query fell behind has been read, and `_slash_tentative`, whether that is not all.",
    ),
    Key(
        "shed",
        "off",
        _choice("off", "bounded"),
        "Whether a query over a Kafka topic may take a sample of its records when there are too many. `bounded`: "
        "counts, sums and means are estimated then, and rows have bounds for each (docs/shedding.md); of a query that "
        "computes anything else all records are taken, and the log says why.",
    ),
    Key(
        "plan.change",
        "exact",
        _choice("exact", "names", "aggregates"),
        "How a query may differ from the one that wrote its checkpoint. `exact`: aggregates may be dropped, reordered "
        "or renamed, and added where the state has their whole history; `aggregates`: any may be added, and for groups "
        "that had rows before, an added one covers only the rows since then; `names`: keys and columns may be written "
        "differently, if their types and positions are the same. All but `names` need "
        "`spark.slash.durability=checkpoint` or `both`.",
    ),
    Key(
        "adopt",
        "false",
        _boolean,
        "Whether a query that begins on a checkpoint of plain Spark takes over its state (`true`), or stays on plain "
        "Spark. Needs `spark.slash.durability=checkpoint` or `both`. There is no way back but `pyslash state export`.",
    ),
    Key(
        "logs",
        "auto",
        _choice("auto", "spark"),
        "Who writes the log files of streaming queries (offsets, commits, the logs of file sources and sinks, state of "
        "plain Spark) to a checkpoint. `auto`: pyslash, for queries left to plain Spark too, on a local disk without "
        "the processes that Hadoop forks for each file, on S3 by one request instead of some thirty (`s3a://`, by the "
        "Hadoop of Spark 4.2 and later); `spark`: Spark. Other file systems, and a "
        "`spark.sql.streaming.checkpointFileManagerClass` of your own, are always Spark's.",
    ),
    Key(
        "progress.retained",
        "100",
        _positive,
        "Number of epochs whose figures `pyslash.progress(query)` and the Spark UI keep.",
    ),
    Key(
        "watch",
        "true",
        _boolean,
        'Shows queries in the tab "Slash" of the Spark UI, in the event log and so in the History Server, and in the '
        "source `pyslash` of Spark's metrics system, if the application has any of these (docs/ui.md).",
    ),
    Key(
        "watch.keys",
        "true",
        _boolean,
        "Shows the values of keys in the Spark UI, on the page of a query's state, to whom it lets in; `false` shows "
        "their sizes alone (docs/security.md).",
    ),
)

# Keys that there were, and what takes their place.
_REMOVED = {
    "early": "windows are emitted in the micro-batch in which Spark emits them",
    "replication": "set spark.slash.durability to replica or both",
}

KEYS: dict[str, Key] = {PREFIX + key.name: key for key in _KEYS}


@dataclass(frozen=True)
class Conf:
    """The parsed values of one query."""

    mode: str
    ingest: str
    ingest_files_min_bytes: int
    ingest_json: str
    ingest_csv: str
    ingest_avro: str
    ingest_kafka: str
    transport: str
    strategy: str
    arena_bytes: int
    session_rewrite_bytes: int
    buffer_fold_epochs: int
    fold_blocks: int
    runs_processors: bool
    spill_directory: str
    spill_bytes: int
    agent_start_timeout: int
    agent_call_timeout: int
    merge_driver_bytes: int
    merge_task_bytes: int
    home_bytes: int
    durability: str
    checkpoint_timeout: int
    snapshot_rate: int
    late_path: str
    late_format: str
    backlog: str
    backlog_latency: int
    backlog_expire: int | None
    backlog_expired: str
    adds_backlog_columns: bool
    shed: str
    plan_change: str
    adopt: bool
    logs: str
    progress_retained: int
    watch: bool
    watch_keys: bool

    @classmethod
    def read(cls, get: Callable[[str, str], str | None]) -> Conf:
        """Values by `get(full key, default)`, for instance `spark.conf.get`.

        Raises:
            ConfigError: a value does not parse; the message names the key.
        """
        values = []
        for name, key in KEYS.items():
            text = get(name, key.default)
            try:
                values.append(key.parse(key.default if text is None else text))
            except ValueError as error:
                raise ConfigError(f"{name}: {error}") from None
        return cls(*values)

    @property
    def worth_a_task(self) -> int:
        """Bytes of merged groups that cost as much as a task that has nothing to do; 0: tasks are as many as cores."""
        return self.merge_driver_bytes // _TASKS_FOR_A_DRIVER

    @property
    def keeps_files(self) -> bool:
        """Whether epochs are in the query's checkpoint."""
        return self.durability in ("checkpoint", "both")

    @property
    def replicates(self) -> bool:
        """Whether epochs are in a standby's memory."""
        return self.durability in ("replica", "both")

    @property
    def recovers(self) -> bool:
        """Whether a lost agent's state comes back from anywhere."""
        return self.keeps_files or self.replicates


def read_properties(path: Path) -> dict[str, str]:
    """The settings of a properties file of Spark's, as Java reads it: a name, then blanks, `=` or `:`, then a value.

    Lines with `#` or `!` first are comments, and one that ends with a backslash goes on in the next.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(error)) from None
    found = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\n\s*", r"\1", text).splitlines():
        if (setting := line.strip()) and setting[0] not in "#!":
            name, _, value = re.sub(r"\s*[=:\s]\s*", " ", setting, count=1).partition(" ")
            found[name] = value
    return found


def check_names(names: Iterable[str]) -> None:
    """Pass if every `spark.slash.*` name among these is a key.

    Raises:
        ConfigError: one is not; the message names the nearest key, or what has replaced one that there was.
    """
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in KEYS:
            known = {key.removeprefix(PREFIX).lower(): key for key in KEYS}
            near = difflib.get_close_matches(name.removeprefix(PREFIX).lower(), known, 1)
            meant = f"do you mean {known[near[0]]}?" if near else "`pyslash conf` lists all of them"
            meant = _REMOVED.get(name.removeprefix(PREFIX), meant)
            raise ConfigError(f"{name} is no key of pyslash: {meant}")
