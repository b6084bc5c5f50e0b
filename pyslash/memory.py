"""How much memory an executor uses outside its JVM's heap, and whether its container leaves that much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyslash.conf import ARENA_SIZE, KEYS, Conf, parse_bytes

_MIB = 1 << 20
_GIB = 1 << 30
_AGENT_BYTES = 128 * _MIB  # without its arena: 60 to 75 MiB were seen
_TASK_BYTES = 256 * _MIB  # of each task at a time: folded groups of its rows, a Python worker, what a merge reads ahead
_LEAST_OVERHEAD = 384 * _MIB  # what Spark leaves for itself at least, and its share of the heap
_OVERHEAD_SHARE = 0.1
_OVERHEAD_SHARE_OF_PYTHON = 0.4  # on Kubernetes, where spark-submit starts the driver in the cluster and tells it so

Get = Callable[[str, str], str | None]


def of_home(groups: int, block_bytes: int) -> int:
    """Bytes that a home uses for groups of `block_bytes` in blocks: tables grow by doubling.

    Between 90 and 130 were measured for a group of 32.
    """
    return 2 * block_bytes + 64 * groups


@dataclass(frozen=True)
class Room:
    """Memory that the processes of a machine may use in all, and who sets that limit."""

    size: int
    whose: str

    @classmethod
    def here(cls, meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> Self:
        """This machine's, or this container's."""
        fields = dict(line.split(":") for line in meminfo.read_text().splitlines())
        total = int(fields["MemTotal"].split()[0]) * 1024
        try:
            limit = (cgroup / "memory.max").read_text().strip()
            if limit != "max" and int(limit) < total:
                return cls(int(limit), "this container may use")
        except OSError:
            pass  # no cgroup v2, or its root: no limit
        return cls(total, "this machine has")

    def compared(self, arena_bytes: int) -> str:
        """An arena beside it, in words."""
        return f"{ARENA_SIZE} is {arena_bytes / _GIB:.1f} GiB, {self.whose} {self.size / _GIB:.1f} GiB"

    def refusal(self, arena_bytes: int) -> str | None:
        """Why an arena cannot be as large as somebody has set it. Nobody has chosen the default, so it ends no query:
        pages are allocated when they are used.
        """
        is_default = arena_bytes == parse_bytes(KEYS[ARENA_SIZE].default)
        return None if is_default or arena_bytes <= self.size else f"{self.compared(arena_bytes)}: set a smaller one"


@dataclass(frozen=True)
class Account:
    """Bytes that one executor uses outside its heap, by purpose."""

    arena: int
    homes: int
    agent: int
    tasks: int
    spark: int

    @classmethod
    def of(cls, conf: Conf, heap_bytes: int, cores: int) -> Self:
        """What an executor with this heap and number of cores may use."""
        own = max(_LEAST_OVERHEAD, round(heap_bytes * _OVERHEAD_SHARE))
        return cls(conf.arena_bytes, conf.home_bytes, _AGENT_BYTES, cores * _TASK_BYTES, own)

    @property
    def total(self) -> int:
        """All of it."""
        return self.arena + self.homes + self.agent + self.tasks + self.spark

    def __str__(self) -> str:
        """In MiB, by purpose."""
        return ", ".join(f"{name} {size // _MIB}m" for name, size in vars(self).items())


@dataclass(frozen=True)
class Container:
    """What the containers of an application's executors leave outside the heap, and what they need there."""

    overhead: int
    account: Account

    @classmethod
    def of(cls, get: Get, conf: Conf) -> Self | None:
        """By Spark's settings, `get(full key, default)`; None: executors run in no container, as far as these tell.

        Raises:
            ValueError: a setting is no size or number; the message names it.
        """
        master = get("spark.master", "") or ""
        is_known = master.startswith(("yarn", "k8s")) or (not master and get("spark.executor.memoryOverhead", ""))
        if not is_known:
            return None

        def size(name: str, default: str = "") -> int:
            """Of a value without a unit, which means MiB here."""
            text = get(name, default) or default
            with _naming(name):
                return int(text) * _MIB if text.isdigit() else parse_bytes(text)

        heap = size("spark.executor.memory", "1g")
        factor = get("spark.executor.memoryOverheadFactor", "")
        if not factor and master.startswith("k8s"):
            is_in_cluster = get("spark.submit.deployMode", "") == "cluster"
            usual = str(_OVERHEAD_SHARE_OF_PYTHON) if is_in_cluster else ""
            factor = get("spark.kubernetes.memoryOverheadFactor", "") or usual
        with _naming("the factor of the memory overhead"):
            share = float(factor or _OVERHEAD_SHARE)
        least = size("spark.executor.minMemoryOverhead", f"{_LEAST_OVERHEAD}b")
        overhead = size("spark.executor.memoryOverhead", f"{max(least, round(heap * share))}b")
        overhead += size("spark.executor.pyspark.memory", "0b")
        with _naming("spark.executor.cores"):
            cores = int(get("spark.executor.cores", "1") or 1)
        return cls(overhead, Account.of(conf, heap, cores))

    @property
    def shortage(self) -> str | None:
        """What to do about it, where an executor may be killed for its memory; else None."""
        if self.account.total <= self.overhead:
            return None
        return (
            f"an executor may use {self.account.total // _MIB}m outside its heap ({self.account}), and its container "
            f"leaves {self.overhead // _MIB}m for that: set "
            f"spark.executor.memoryOverhead={self.account.total // _MIB}m, or a smaller spark.slash.arena.size or "
            "spark.slash.home.size"
        )


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    """An error about a value begins with whose it is."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from None
