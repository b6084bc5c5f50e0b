"""The model's arithmetic: known corners, and directions that must hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eval.model.costs import WAYS, late_merge, limits, occupied, rack_of, repartition, tree, unfolded
from eval.model.inputs import SHARED_MEMORY, Link, Load, Nodes
from tests.eval.model.rates import RATES

BARE = RATES.in_memory()
LOAD = Load(rows=10_000_000, keys=10_000)


def test_one_core_pays_for_rows_and_groups() -> None:
    epoch = late_merge(BARE, SHARED_MEMORY, Nodes(1, 1), LOAD)
    assert epoch.update == pytest.approx((10_000_000 * 50 + 10_000 * 50) / 1e9)
    assert epoch.merge == pytest.approx(10_000 * 40 / 1e9)
    assert epoch.seconds == pytest.approx(epoch.update + epoch.merge)
    assert (epoch.bytes, epoch.queue_pairs, epoch.useful) == (0, 0, 1)
    early = repartition(BARE, SHARED_MEMORY, Nodes(1, 1), LOAD)
    assert early.seconds == pytest.approx(10_000_000 * (60 + 70) / 1e9)


def test_bytes_follow_groups_for_one_way_and_rows_for_the_other() -> None:
    late, early = (way(BARE, Link(), Nodes(2, 1), LOAD) for way in (late_merge, repartition))
    # Half of two nodes' groups is at home. A task reads a whole segment of 8,192 at least.
    assert late.bytes == pytest.approx(2 * 10_000 / 2 * 32 / 2)
    assert early.bytes == pytest.approx(10_000_000 * 24 / 2)
    more = replace(LOAD, rows=2 * LOAD.rows)
    assert late_merge(BARE, Link(), Nodes(2, 1), more).bytes == pytest.approx(late.bytes)
    assert repartition(BARE, Link(), Nodes(2, 1), more).bytes == pytest.approx(2 * early.bytes)


@pytest.mark.parametrize("way", WAYS)
def test_more_of_anything_never_takes_less(way: str) -> None:
    cost = WAYS[way]
    seconds = cost(RATES, Link(), Nodes(8, 4), LOAD).seconds
    slower = Link(bytes_per_s=1e9, latency_s=1e-4)
    assert cost(RATES, slower, Nodes(8, 4), LOAD).seconds > seconds
    assert cost(RATES, Link(), Nodes(8, 4), replace(LOAD, rows=2 * LOAD.rows)).seconds > seconds
    assert cost(replace(RATES, update=500, partition=600), Link(), Nodes(8, 4), LOAD).seconds > seconds
    assert cost(BARE, Link(), Nodes(8, 4), LOAD).seconds < seconds
    assert all(value >= 0 for value in cost(RATES, Link(), Nodes(1024, 16), LOAD).phases.values())


def test_connections_grow_as_the_ways_say() -> None:
    nodes = Nodes(1024, 16)
    early, late, racks = (way(BARE, Link(), nodes, LOAD) for way in (repartition, late_merge, tree))
    assert early.queue_pairs == 2 * 16 * 1023
    assert late.queue_pairs == 2 * 1023
    assert racks.queue_pairs == 2 * (31 + 31)
    assert racks.seconds < late.seconds < unfolded(BARE, Link(), nodes, LOAD).seconds


def test_a_tree_of_one_rack_is_no_tree() -> None:
    assert tree(RATES, Link(), Nodes(1, 8), LOAD) == late_merge(RATES, Link(), Nodes(1, 8), LOAD)
    assert rack_of(3) == 2


def test_tasks_narrower_than_a_segment_read_what_they_do_not_want() -> None:
    nodes = Nodes(16, 16)
    assert unfolded(BARE, Link(), nodes, LOAD).useful == pytest.approx(64 / 256)
    assert late_merge(BARE, Link(), nodes, LOAD).useful == 1  # has as many tasks as there are segments
    many = late_merge(BARE, Link(), Nodes(4, 16), Load(1e9, 10_000_000))
    assert many.useful == 1


def test_distinct_keys() -> None:
    assert occupied(1000, 1e9) == pytest.approx(1000)
    assert occupied(1e12, 1000) == pytest.approx(1000)


def test_limits_are_named() -> None:
    nodes = Nodes(1024, 16)
    small = Link(queue_pairs=1000)
    assert any("the device makes 1,000" in text for text in limits(late_merge(RATES, small, nodes, LOAD), small))
    past = limits(unfolded(RATES, Link(), nodes, LOAD), Link())
    assert any("1,024 at full rate" in text for text in past)
    assert any("keep 0%" in text for text in past)
    assert limits(tree(BARE, Link(), Nodes(16, 16), LOAD), Link()) == []
