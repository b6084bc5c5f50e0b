"""The configuration keys of pyslash: every `spark.slash.*` key, its default and what it means, in one table.

Values are read from a session's runtime configuration, so that `spark-submit --conf`, a properties file and
`spark.conf.set` all work; a query keeps the values that it started with.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyslash.errors import ConfigError

PREFIX = "spark.slash."

_SIZE = re.compile(r"^(\d+)\s*([kmgt]?)i?b?$", re.IGNORECASE)
_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_bytes(text: str) -> int:
    """Bytes of a size in Spark's spelling.

    >>> parse_bytes("2g"), parse_bytes("64 MiB"), parse_bytes("100")
    (2147483648, 67108864, 100)
    """
    match = _SIZE.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size such as 512m or 2g")
    return int(match[1]) * _UNIT[match[2].lower()]


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in allowed:
            raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")
        return text.lower()

    return parse


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError(f"{text!r} is not a positive number")
    return number


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not true or false")
    return text.strip().lower() == "true"


def _standbys(text: str) -> int:
    if text.strip() not in ("0", "1"):
        raise ValueError(f"{text!r} is not 0 or 1")
    return int(text)


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
        "`auto`: queries that are not covered run on plain Spark, with the reason in the log; "
        "`require`: such a query fails to start; `off`: pyslash touches nothing.",
    ),
    Key(
        "ingest",
        "auto",
        _choice("auto", "files", "rows", "arrow"),
        "How rows reach native code: `files` reads Parquet natively where that gives Spark's own rows, `rows` has "
        "Spark read and takes its rows through the row bridge inside the executor's JVM, `arrow` takes them through "
        "`mapInArrow`. `auto` takes `files` for large micro-batches, else the row bridge where its jar is there.",
    ),
    Key(
        "ingest.filesMinBytes",
        "16m",
        parse_bytes,
        "Micro-batches of fewer bytes of Parquet are read by Spark: a Python job costs more than it saves.",
    ),
    Key(
        "ingest.json",
        "auto",
        _choice("auto", "spark"),
        "`auto` has native code read the records of a `from_json` below the aggregation that it is certain to read as "
        "Spark does, and Spark's own parser all others; `spark` leaves all of them to Spark.",
    ),
    Key(
        "transport",
        "auto",
        _choice("auto", "verbs", "shm", "tcp"),
        "How a merge reads partial state out of an agent: `auto` takes, for each peer, `shm` on the same host, `verbs` "
        "(RDMA) where both hosts have a device on the same fabric, `tcp` elsewhere, and the log says why. A forced "
        "transport that cannot be had is an error.",
    ),
    Key(
        "strategy",
        "merge",
        _choice("merge", "repartition"),
        "`merge`: tasks aggregate the rows that they read, and partial state is merged when windows close; "
        "`repartition`: rows go to the owner of their key first, over the same transport, and are aggregated there, "
        "the baseline that `merge` is measured against. Same results; a query may change it when it is started again.",
    ),
    Key(
        "arena.size",
        "2g",
        parse_bytes,
        "Upper bound of the arena of each executor, in which its partial state lives. "
        "Pages are taken as they are used.",
    ),
    Key(
        "session.rewriteBytes",
        "32m",
        parse_bytes,
        "Sessions that are still open are written anew, an entry each, once blocks hold more bytes of sessions than "
        "this, and four times what they held after the last time.",
    ),
    Key(
        "spill.dir",
        "",
        str.strip,
        "Directory of each executor's host to which its agent spills partial state that the arena has no room for; "
        "empty: the first of the executor's own local directories.",
    ),
    Key(
        "spill.maxBytes",
        "8g",
        parse_bytes,
        "Partial state that an agent may have on disk; past it a batch fails before its commit. 0: nothing is spilled.",
    ),
    Key(
        "agent.startTimeout",
        "30",
        _positive,
        "Seconds that an executor waits for its agent to start.",
    ),
    Key(
        "agent.callTimeout",
        "30",
        _positive,
        "Seconds that a call to an agent may take before it fails with an error that names the agent.",
    ),
    Key(
        "merge.driverBytes",
        "1m",
        parse_bytes,
        "A merge that gives less than this is done by the driver itself instead of by a Spark job.",
    ),
    Key(
        "merge.taskBytes",
        "64m",
        parse_bytes,
        "Partial state that one merge task should read; a merge has as many tasks as its measured bytes ask for, "
        "between the number of cores and 32 times that.",
    ),
    Key(
        "home.size",
        "1g",
        parse_bytes,
        "Memory of each executor for the groups of a query in update or complete mode, or the keys of a deduplication, "
        "so that an epoch reads its changes alone. A query whose groups take more merges what it emits from all "
        "blocks. 0: none are kept.",
    ),
    Key(
        "emit",
        "auto",
        _choice("auto", "columns", "arrow"),
        "How merged rows reach Spark: `columns` merges inside the executors' JVMs and shows Spark the native columns "
        "where they are, `arrow` merges in Python workers. `auto` takes `columns` where executors can map all agents' "
        "arenas, i.e. on one host, for what is merged by tasks and not spilled.",
    ),
    Key(
        "durability",
        "checkpoint",
        _choice("checkpoint", "replica", "both", "off"),
        "Where an epoch's partial state is kept, besides the agent that made it, before Spark logs the epoch. "
        "`checkpoint`: in the query's checkpoint, so that it survives executors and drivers; `replica`: in the memory "
        "of a standby, another executor's agent, so that it survives one executor at a time but not the application; "
        "`both`: a lost executor's share comes back from its standby, all else from the checkpoint; `off`: nowhere: a "
        "loss ends the query.",
    ),
    Key(
        "replication",
        "0",
        _standbys,
        "Standbys that keep a copy of each agent's state, 0 or 1: 1 makes `checkpoint` mean `both` and `off` mean "
        "`replica`, which both imply it. A standby is on another host if there is one; its arena holds as much again.",
    ),
    Key(
        "checkpoint.timeout",
        "120",
        _positive,
        "Seconds that an agent may take to write its part of an epoch to the checkpoint, or to restore its share.",
    ),
    Key(
        "plan.change",
        "refuse",
        _choice("refuse", "names", "aggregates"),
        "What a query may differ in from the one that its checkpoint is of. `refuse`: in nothing; `names`: in how keys "
        "and columns are written, if their types and places are the same; `aggregates`: in which aggregates it has: "
        "one that is added knows only rows from then on. Needs `spark.slash.durability=checkpoint`.",
    ),
    Key(
        "early",
        "false",
        _boolean,
        "`true`: a window is emitted in the micro-batch that moves the watermark past its end, one earlier than Spark, "
        "and rows for it are late from then on: a row that Spark would still count is dropped. For queries in append "
        "mode with one watermark.",
    ),
    Key(
        "progress.retained",
        "100",
        _positive,
        "Epochs whose figures `pyslash.progress(query)` and the Spark UI keep.",
    ),
    Key(
        "watch",
        "true",
        _boolean,
        'Queries are shown in the tab "Slash" of the Spark UI, in the event log and so in the History Server, and in '
        "the source `pyslash` of Spark's metrics system, wherever the application has any of these (docs/ui.md).",
    ),
)

KEYS: dict[str, Key] = {PREFIX + key.name: key for key in _KEYS}


@dataclass(frozen=True)
class Conf:
    """The parsed values of one query."""

    mode: str
    ingest: str
    ingest_files_min_bytes: int
    ingest_json: str
    transport: str
    strategy: str
    arena_bytes: int
    session_rewrite_bytes: int
    spill_directory: str
    spill_bytes: int
    agent_start_timeout: int
    agent_call_timeout: int
    merge_driver_bytes: int
    merge_task_bytes: int
    home_bytes: int
    emit: str
    durability: str
    replication: int
    checkpoint_timeout: int
    plan_change: str
    early: bool
    progress_retained: int
    watch: bool

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
    def keeps_files(self) -> bool:
        """Whether epochs are in the query's checkpoint."""
        return self.durability in ("checkpoint", "both")

    @property
    def replicates(self) -> bool:
        """Whether epochs are in a standby's memory."""
        return self.replication == 1 or self.durability in ("replica", "both")

    @property
    def recovers(self) -> bool:
        """Whether a lost agent's state comes back from anywhere."""
        return self.keeps_files or self.replicates


def mode_of(get: Callable[[str, str], str | None]) -> str:
    """`spark.slash.mode` alone: what the hook asks before anything else.

    Raises:
        ConfigError: the value is none of the modes.
    """
    name = PREFIX + "mode"
    key = KEYS[name]
    try:
        return str(key.parse(get(name, key.default) or key.default))
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
