"""A checkpoint of two epochs, as a query writes it, without Spark."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyslash import _native
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import PlanSpec
from pyslash.state.files.block_file import write
from pyslash.state.files.checkpoint_files import LocalFiles
from pyslash.state.files.directory import BlockDirectory, BlockFile
from pyslash.state.manifest import BLOCKS, MANIFESTS, RUNS, ManifestLog
from tests.model.rows import SECOND, Row, batch_of
from tests.support.manifests import manifest

SIZE, SLIDE = 10, 5
PLAN = f"""pyslash-plan 1
window {SIZE * SECOND} {SLIDE * SECOND} 0
column int64 1
column int64 1
key 1
aggregate sum 2 1
aggregate count - 1
"""
IDENTITY = PlanIdentity(PlanSpec.decode(PLAN), ("k", "v"))
WATERMARKS = [0, 10, 15]  # before epoch 0, after it, after epoch 1
Made = Callable[[list[Row]], pa.RecordBatch]
Group = tuple[int, int | None, int, int]


@dataclass(frozen=True)
class Written:
    """Where it is, and what it must say."""

    location: Path
    rows: list[Row]

    def groups(self, epochs: int = 2) -> list[Group]:
        """(window's start in seconds, key, sum, count) of the windows open after this many epochs."""
        found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        for time, key, value in self.rows[: 100 * epochs]:
            for start in range(time - time % SLIDE, time - SIZE, -SLIDE):
                if start + SIZE > WATERMARKS[epochs]:
                    found[start, key][0] += value
                    found[start, key][1] += 1
        return sorted((*group, *sums) for group, sums in found.items())

    @property
    def files(self) -> list[Path]:
        """The block files."""
        return sorted((self.location / BLOCKS).iterdir())


def write_two_epochs(location: Path, plan: str = PLAN, made: Made = batch_of, **fields: Any) -> Written:
    """Epoch 0 holds two blocks, epoch 1 one more, in a file of its own.

    `made`: the columns that the plan takes, of rows. `fields`: of both manifests.
    """
    identity = PlanIdentity(PlanSpec.decode(plan), ("k", "v"))
    rows = [(i % 20, i % 7, i) for i in range(100)] + [(10 + i % 20, i % 7, i) for i in range(100)]
    log = ManifestLog(LocalFiles(location / MANIFESTS), LocalFiles(location / RUNS))
    run, folder, files = log.take_over(), BlockDirectory(str(location / BLOCKS)), list[BlockFile]()
    for epoch, parts in enumerate([[rows[:50], rows[50:100]], [rows[100:]]]):
        name = f"{epoch}-{run}-{'a' * 32}.arrow"
        stored = folder.write(name, partial(write, plan, [block(part, epoch, plan, made) for part in parts]))
        files.append(BlockFile(name, *stored, 0, "a" * 32, False))
        before, after = (WATERMARKS[epoch + i] * SECOND for i in (0, 1))
        told = {"emitted_us": before, "watermark_us": after, **fields}
        log.create(manifest(epoch, identity, run=run, rows=100, blocks=[("a" * 32, 0, 0)], files=list(files), **told))
    return Written(location, rows)


def block(rows: list[Row], epoch: int, plan: str = PLAN, made: Made = batch_of) -> memoryview:
    """A whole block of these rows."""
    fd = os.memfd_create("arena")
    try:
        arena = _native.Arena.create(fd, 8 << 20, bytes(16))
        accumulator = _native.Accumulator(_native.Plan(plan), -(1 << 62))
        accumulator.add(made(rows))
        head = _native.Head(accumulator.seal(arena, bytes(16), epoch, 0))
        return arena.view(head.arena_offset, head.length)
    finally:
        os.close(fd)
