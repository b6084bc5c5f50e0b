"""What goes into the model. Rates are measured ones (`measured.json` says where and how); the link is assumed."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).with_name("measured.json")
_UPDATES = {"ysb": "ysb_count", "sums": "sum_count_max"}
_KEYS = {"ysb": 10_000, "sums": 100_000}
BENCHMARK_ROWS = 1 << 21  # of native/benchmarks, in all executors


class InputError(Exception):
    """A file of rates that lacks what the model needs; names what and how to get it."""


@dataclass(frozen=True)
class Rates:
    """What this code costs. Cycles are of one core at its nominal clock, seconds are of one core or of the driver.

    Cycles: `update` a row into the accumulator, `seal` a group into a block, `merge` a group of a block, `skip` a group
    that is read and not wanted, `partition` a row into an owner's bucket, `own` a row at its owner, aggregated and
    emitted. Bytes: of a group and of a row in a block. Seconds: `ingest_s` a row before it reaches native code,
    `epoch_s` an epoch with next to no rows, `task_s` a task at the driver, `head_s` for a reader to parse one block's
    head and find its ranges, `read_s` a call of `Transport.read`, its network time aside.
    """

    hz: float
    update: float
    seal: float
    merge: float
    skip: float
    partition: float
    own: float
    group_bytes: float
    row_bytes: float
    ingest_s: float
    epoch_s: float
    task_s: float
    head_s: float
    read_s: float

    def seconds(self, cycles: float) -> float:
        """Of one core."""
        return cycles / self.hz

    def in_memory(self) -> Rates:
        """Rows lie in native memory already, and no Spark is around: what Slash's authors measure."""
        return replace(self, ingest_s=0.0, epoch_s=0.0, task_s=0.0, head_s=0.0, read_s=0.0)


@dataclass(frozen=True)
class Link:
    """A network card and the fabric behind it: assumptions, each with where to find one's own figure.

    `latency_s`: of a small READ (ib_read_lat). `bytes_per_s`: of large ones (ib_read_bw). `queue_pairs`: as many as
    the device makes (ibv_devinfo -v, max_qp). `cached`: connections that a card serves at full rate; `uncached` is the
    share of the rate that is left for those beyond, whose state comes over PCIe (ib_read_bw -q shows both).
    """

    latency_s: float = 3e-6
    bytes_per_s: float = 12.5e9
    queue_pairs: int = 131_072
    cached: int = 1_024
    uncached: float = 0.5


# Processes of one machine: state is mapped, and nothing crosses a wire.
SHARED_MEMORY = Link(latency_s=0.0, bytes_per_s=float("inf"), queue_pairs=1 << 62, cached=1 << 62)


@dataclass(frozen=True)
class Load:
    """An epoch: `rows` a node, `keys` equally likely, `windows` that close in it (below 1: one in several epochs)."""

    rows: float
    keys: int
    windows: float = 1.0


@dataclass(frozen=True)
class Nodes:
    """`count` of them, each with so many cores for tasks."""

    count: int
    cores: int


def load(path: Path = MEASURED) -> Rates:
    """The rates of a file.

    Raises:
        InputError: one is missing.
    """
    return _rates(json.loads(path.read_text())["rates"], str(path))


def save(path: Path, rates: Rates, sources: Mapping[str, Any]) -> None:
    """Rates, and beside them where they come from."""
    path.write_text(json.dumps({"sources": sources, "rates": asdict(rates)}, indent=2) + "\n")


def of_kernels(rates: Rates, benchmarks: Iterable[Mapping[str, Any]], plan: str = "ysb", keys: int = 0) -> Rates:
    """Rates with those of google-benchmark's counters (make bench-native) in place.

    `plan` is `ysb` or `sums`: whose strategies are taken. With `keys` the update is that of the nearest number of keys.

    Raises:
        InputError: a benchmark is missing.
    """
    found = medians(benchmarks)

    def counter(name: str, counted: str) -> float:
        matching = [counters for key, counters in found.items() if key.startswith(name)]
        if not matching or counted not in matching[0]:
            raise InputError(f"no {counted!r} of a benchmark {name}*: make bench-native ARGS=--benchmark_format=json")
        return matching[0][counted]

    updates = [name for name in found if name.startswith(f"update_columns/{_UPDATES[plan]}/")]
    wanted = math.log(keys or _KEYS[plan])
    update = min(updates, key=lambda name: abs(math.log(int(name.split("/")[2])) - wanted), default=_UPDATES[plan])
    late, repartition = f"strategy/{plan}_merge/", f"strategy/{plan}_repartition/"
    # The first of them: every executor has every group, so what owners read gives a group's bytes.
    read = counter(late, "bytes/record") * BENCHMARK_ROWS
    of_first, executors = (int(word) for word in next(key for key in found if key.startswith(late)).split("/")[2:4])
    return replace(
        rates,
        update=counter(update, "cycles/record"),
        seal=counter("seal_groups/", "cycles/record"),
        merge=counter("merge_blocks/", "cycles/record"),
        partition=counter(repartition, "until sealed"),
        own=counter(repartition, "to result"),
        row_bytes=counter(repartition, "bytes/record"),
        group_bytes=read / (of_first * executors),
    )


def medians(benchmarks: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Counters by benchmark, over its repetitions if it had any."""
    found: dict[str, dict[str, list[float]]] = {}
    for bench in benchmarks:
        if bench.get("run_type", "iteration") == "iteration":
            counters = found.setdefault(str(bench["name"]), {})
            for name, value in bench.items():
                if isinstance(value, (int, float)):
                    counters.setdefault(name, []).append(value)
    return {
        name: {counter: statistics.median(values) for counter, values in counters.items()}
        for name, counters in found.items()
    }


def _rates(values: Mapping[str, Any], where: str) -> Rates:
    names = {field.name for field in fields(Rates)}
    if missing := names - values.keys():
        raise InputError(f"{where} lacks {', '.join(sorted(missing))}")
    return Rates(**{name: float(values[name]) for name in names})
