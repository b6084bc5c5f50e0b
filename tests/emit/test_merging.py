"""How many tasks merge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyslash.conf import Conf
from pyslash.emit.merging import merge_tasks, produced_bytes
from pyslash.plan.spec import AggregateSpec, ColumnSpec, PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.state.version import Size

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("cores", "held", "overlap", "segments", "tasks"),
    [
        (16, 100 * MIB, 1, 1, 16),  # every core has enough to do
        (16, 10 * GIB, 1, 4096, 160),  # no task reads much more than 64 MiB
        (4, 10 * GIB, 1, 4096, 128),  # up to 32 for each core
        (256, 2 * MIB, 1, 1, 8),  # few bytes are not merged by all cores of a cluster
        (256, 2 * MIB, 10, 1, 80),  # unless many windows come of them
        (256, 2 * MIB, 1, 16, 16),  # or there are as many segments to read
        (2, 2 * MIB, 1, 16, 2),
    ],
)
def test_tasks_by_cores_bytes_and_segments(cores: int, held: int, overlap: int, segments: int, tasks: int) -> None:
    assert merge_tasks(Conf.read(lambda key, default: default), cores, held, held * overlap, segments) == tasks


def test_tasks_merge_whatever_is_small_if_the_driver_merges_nothing() -> None:
    assert merge_tasks(Conf.read({"spark.slash.merge.driverBytes": "0"}.get), 256, 10 * KIB, 10 * KIB, 1) == 256


def test_registers_that_blocks_list_are_words_in_results() -> None:
    plan = PlanSpec(
        window=TimeWindow(10, 10, 0),
        columns=(ColumnSpec("int64", False), ColumnSpec("int64", True)),
        keys=(1,),
        aggregates=(AggregateSpec("approx_count_distinct", (2,), False, "14"),),
    )
    assert produced_bytes(plan.text, Size(50_000, MIB), 1) == MIB + 50_000 * 13_112
    plain = replace(plan, aggregates=(AggregateSpec("count"),))
    assert produced_bytes(plain.text, Size(50_000, MIB), 2) == 2 * MIB
