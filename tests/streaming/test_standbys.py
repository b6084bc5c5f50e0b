"""Who keeps whose replica, and that a repair counts every share exactly once, whoever is lost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pyslash.plan.identity import PlanIdentity
from pyslash.protocol.client import Described
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.streaming.manifest import Manifest
from pyslash.streaming.standbys import Repair, choose_standbys, plan_repair
from tests.streaming.manifests import manifest

EPOCH = 7
NAMES = [f"{index:032x}" for index in range(5)]


def agent(name: str, host: str = "a") -> AgentDescriptor:
    return AgentDescriptor(1, 1, 3, 1 << 20, name, "/s", "127.0.0.1", 1, host, "/l", "")


def as_of(epoch: int, names: list[str], standbys: dict[str, str], wrote: list[str]) -> Manifest:
    return manifest(
        epoch,
        PlanIdentity("plan", ()),
        blocks=[(name, 64, 0) for name in wrote],
        agents=[agent(name) for name in names],
        in_checkpoint=False,
        standbys=standbys,
    )


def holding(epoch: int, replicas: dict[str, int], promoted: dict[str, int] | None = None, run: int = 1) -> Described:
    return Described(b"", epoch, run, replicas, promoted or {}, [b"head"], 0, 0)


@given(st.lists(st.sampled_from(NAMES), unique=True), st.lists(st.sampled_from("ab"), min_size=5, max_size=5))
def test_everyone_has_a_standby_on_another_host_if_there_is_one(names: list[str], hosts: list[str]) -> None:
    agents = [agent(name, host) for name, host in zip(names, hosts, strict=False)]
    host_of = {one.incarnation: one.boot_id for one in agents}
    chosen = choose_standbys(agents, {})
    assert chosen.keys() == (set() if len(agents) < 2 else set(names))
    for source, standby in chosen.items():
        assert source != standby
        assert host_of[source] != host_of[standby] or len(set(host_of.values())) == 1
    assert choose_standbys(reversed(agents), chosen) == chosen


def test_a_choice_stands_as_long_as_its_standby_does() -> None:
    one, two, three = (agent(name) for name in NAMES[:3])
    chosen = choose_standbys([one, three], {})
    assert choose_standbys([one, two, three], chosen)[one.incarnation] == three.incarnation
    assert choose_standbys([one, two], chosen)[one.incarnation] == two.incarnation


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Manifest, Manifest, dict[str, Described]]:
    """A manifest, the one before it, and what those that answer hold: anything."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    standbys = draw(st.dictionaries(st.sampled_from(names), st.sampled_from(NAMES)))
    newest = as_of(EPOCH, names, standbys, draw(st.lists(st.sampled_from(names), unique=True)))
    before = as_of(EPOCH - 1, draw(st.lists(st.sampled_from(NAMES), unique=True)), {}, [])
    epochs = st.sampled_from([-1, EPOCH - 2, EPOCH - 1, EPOCH])
    described = {
        name: holding(
            draw(epochs),
            draw(st.dictionaries(st.sampled_from(NAMES), epochs)),
            draw(st.dictionaries(st.sampled_from([other for other in NAMES if other != name]), epochs)),
            draw(st.integers(0, 9)),
        )
        for name in draw(st.lists(st.sampled_from(names), unique=True))
    }
    return newest, before, described


@given(worlds())
def test_a_repair_counts_every_share_exactly_once(world: tuple[Manifest, Manifest, dict[str, Described]]) -> None:
    newest, before, described = world
    repair = plan_repair(newest, before, 0, described)
    if isinstance(repair, str):
        assert "lost" in repair
        return
    survivors = {one.incarnation for one in repair.survivors}
    for one in newest.agents:
        assert (one.incarnation in survivors) != (one.incarnation in repair.moved)
    for source, standby in repair.moved.items():
        assert standby in survivors or source not in {one.incarnation for one in newest.agents}
    for source, standby in repair.promotions.items():
        assert described[standby].replicas[source] >= EPOCH - 1
    assert survivors <= described.keys()
    assert not repair.in_sync.keys() & set(repair.moved.values())  # these hold more than their standbys know of


def test_a_lost_agent_is_replaced_by_its_standby() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    repair = plan_repair(newest, newest, 0, {two: holding(EPOCH - 1, {one: EPOCH})})
    assert repair == Repair([agent(two)], {one: two}, {one: two}, {})


def test_one_that_was_replaced_and_lives_is_not_counted_again() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    held = {one: holding(EPOCH, {two: EPOCH}), two: holding(EPOCH, {}, {one: EPOCH})}
    assert plan_repair(newest, newest, 0, held) == Repair([agent(two)], {}, {one: two}, {})


def test_two_that_have_replaced_each_other_are_told_apart_by_their_runs() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    held = {one: holding(EPOCH, {}, {two: EPOCH}, run=3), two: holding(EPOCH, {}, {one: EPOCH}, run=2)}
    assert plan_repair(newest, newest, 0, held) == Repair([agent(one)], {}, {two: one}, {})


def test_a_replica_that_lacks_the_epoch_is_not_promoted() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two}, [one])
    assert "has not all of its blocks" in str(plan_repair(newest, newest, 0, {two: holding(EPOCH, {one: EPOCH - 1})}))
    assert "had no standby" in str(plan_repair(newest, newest, 0, {one: holding(EPOCH, {})}))


def test_one_that_has_released_what_is_needed_is_lost() -> None:
    one = NAMES[0]
    newest = as_of(EPOCH, [one], {}, [one])
    held = holding(EPOCH, {})
    assert isinstance(plan_repair(newest, newest, 0, {one: held}), Repair)
    assert "is lost" in str(plan_repair(newest, newest, 0, {one: replace(held, blocks=[], first_live_pane=1)}))


def test_one_that_lost_its_memory_is_lost() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one])
    for stale in (-1, EPOCH - 2):
        repair = plan_repair(newest, newest, 0, {one: holding(stale, {}), two: holding(EPOCH, {one: EPOCH})})
        assert isinstance(repair, Repair)
        assert repair.promotions == {one: two}
