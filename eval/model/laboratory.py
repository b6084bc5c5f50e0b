"""The model fitted to the laboratory (`eval/scale`): few executors give its rates, more of them are predicted.

Of a record of `python -m eval scale --out FILE`. The phases are those of `costs`, in CPU of one thread or agent.

    driver    a constant, and a little for each agent
    update    as the slowest task takes, however many executors there are
    agent     its fold and commit, as they are; for each peer a request and an answer; for each byte it gets and gives
    merge     groups of all blocks, of which those that a task reads and does not need cost less (`skip` in `inputs`)
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eval.model import inputs
from eval.model.compare import Check
from eval.model.costs import Made, bytes_into, groups_read, merge_s
from eval.model.inputs import InputError, Rates
from eval.scale.load import EVEN

MOST_FITTED = 8  # executors
_PHASES = {"driver": "driver_ms", "update": "update_ms", "agent": "busiest_agent_ms", "merge": "merge_ms"}


@dataclass(frozen=True)
class Shape:
    """Of an epoch in the laboratory: update tasks (their blocks) and merge tasks of an executor, keys of each block."""

    blocks: int
    tasks: int
    keys: int
    fold: bool

    def made(self, executors: int) -> Made:
        """What merge tasks read."""
        return Made(self.keys, executors * (1 if self.fold else self.blocks), 1)

    def read(self, executors: int) -> tuple[float, float]:
        """Groups of a block that a task reads, and which share of them is its own."""
        made = self.made(executors)
        return groups_read(made.groups, executors * self.tasks, made.segments)

    def bytes_into(self, executors: int, group_bytes: float) -> float:
        """An executor, from all others."""
        read, _ = self.read(executors)
        return bytes_into(executors, executors * self.tasks, self.made(executors).blocks, read * group_bytes)


@dataclass(frozen=True)
class Fitted:
    """Milliseconds of a constant, and of one more agent, peer or megabyte; `rates` has merging and a group's bytes."""

    shape: Shape
    driver: float
    driver_agent: float
    update: float
    agent: float
    agent_peer: float
    agent_megabyte: float
    rates: Rates

    def __str__(self) -> str:
        return (
            f"  driver {self.driver:.2f} ms and {self.driver_agent:.2f} for each agent; update {self.update:.1f} ms; "
            f"agent {self.agent:.1f} ms, {self.agent_peer:.2f} for each peer, {self.agent_megabyte:.2f} for each MB; "
            f"merge {self.rates.merge / self.rates.hz * 1e9:.0f} ns a group of a block"
        )

    def megabytes(self, executors: int) -> float:
        """That an executor reads of others."""
        return self.shape.bytes_into(executors, self.rates.group_bytes) * 1e-6

    def phases(self, executors: int) -> dict[str, float]:
        """Milliseconds by name."""
        into = self.megabytes(executors)
        return {
            "driver": self.driver + self.driver_agent * executors,
            "update": self.update,
            "agent": self.agent + self.agent_peer * (executors - 1) + self.agent_megabyte * into,
            "merge": self.shape.made(executors).blocks * merge_s(self.rates, *self.shape.read(executors)) * 1e3,
        }


def records(files: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    """Those of files that have one each, or several by name."""
    for file in files:
        found = json.loads(file.read_text())
        yield from [found] if "rows" in found else found.values()


def fit(record: Mapping[str, Any]) -> Fitted:
    """To the rows with an even load and at most eight executors.

    Raises:
        InputError: there are fewer than two of them, or the record is of before they had all phases.
    """
    rows = [row for row in _even(record) if row["executors"] <= MOST_FITTED]
    if len(rows) < 2:
        raise InputError(
            "a fit takes rows of two or more numbers of executors up to 8: python -m eval scale --out FILE"
        )
    shape = Shape(**record["load"])
    counts = [row["executors"] for row in rows]
    once = replace(inputs.load(), group_bytes=1.0)
    group_bytes = statistics.median(
        row["megabytes"] * 1e6 / shape.bytes_into(row["executors"], once.group_bytes) for row in rows
    )
    own = statistics.median(row["fold_cpu_ms"] + row["commit_cpu_ms"] for row in rows)
    driver, driver_agent = _least([(1.0, count) for count in counts], [row["driver_ms"] for row in rows])
    peer, megabyte = _least(
        [(count - 1.0, row["megabytes"]) for count, row in zip(counts, rows, strict=True)],
        [row["busiest_agent_ms"] - own for row in rows],
    )
    faster = statistics.median(
        row["merge_ms"] / (shape.made(count).blocks * merge_s(once, *shape.read(count)) * 1e3)
        for count, row in zip(counts, rows, strict=True)
    )
    rates = replace(once, merge=once.merge * faster, skip=once.skip * faster, group_bytes=group_bytes)
    update = statistics.median(row["update_ms"] for row in rows)
    return Fitted(shape, driver, driver_agent, update, own, peer, megabyte, rates)


def checks(record: Mapping[str, Any]) -> list[Check]:
    """Megabytes, phases and the whole chain of each number of executors, measured and predicted."""
    fitted = fit(record)
    found = []
    for row in _even(record):
        count = row["executors"]
        given = count <= MOST_FITTED
        found.append(Check(f"{count} executors, read", "MB", row["megabytes"], fitted.megabytes(count), given))
        phases = fitted.phases(count)
        for name, milliseconds in phases.items():
            found.append(Check(f"{count} executors, {name}", "CPU ms", row[_PHASES[name]], milliseconds, given))
        whole = sum(phases.values())
        found.append(Check(f"{count} executors, longest chain", "CPU ms", row["span_ms"], whole, given))
    return found


def _even(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = record["rows"]
    if "load" not in record or any("span_ms" not in row for row in rows):
        raise InputError("the record has no phases: make it anew by python -m eval scale --out FILE")
    return [row for row in rows if row["skew"] == EVEN]


def _least(points: Sequence[tuple[float, float]], values: Sequence[float]) -> tuple[float, float]:
    """Two factors, none below 0, with the least squares."""
    matrix, wanted = np.array(points), np.array(values)
    first, second = (float(factor) for factor in np.linalg.lstsq(matrix, wanted, rcond=None)[0])
    if first >= 0 and second >= 0:
        return first, second
    alone = [max(0.0, float(column @ wanted / (column @ column))) for column in matrix.T]
    off = [float(((column * factor - wanted) ** 2).sum()) for column, factor in zip(matrix.T, alone, strict=True)]
    return (alone[0], 0.0) if off[0] <= off[1] else (0.0, alone[1])
