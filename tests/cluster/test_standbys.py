"""Who keeps whose replica, and that a repair counts every share exactly once, whoever is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyslash.cluster.standbys import Repair, choose_standbys, plan_repair
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import ANY_WINDOW, PlanSpec
from pyslash.protocol.client import Described
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.manifest import Manifest
from tests.support.manifests import manifest

EPOCH = 7
RUN = 8  # the newest that the checkpoint knows
NAMES = [f"{index:032x}" for index in range(5)]


def agent(name: str, host: str = "a") -> AgentDescriptor:
    return AgentDescriptor(1, 1, 3, 1 << 20, name, "/s", "127.0.0.1", 1, host, "/l", "")


def as_of(epoch: int, names: list[str], standbys: dict[str, str], wrote: list[str]) -> Manifest:
    return manifest(
        epoch,
        PlanIdentity(PlanSpec(window=ANY_WINDOW), ()),
        blocks=[(name, 64, 0) for name in wrote],
        agents=[agent(name) for name in names],
        in_checkpoint=False,
        standbys=standbys,
    )


def holding(
    epoch: int,
    replicas: dict[str, int],
    promoted: dict[str, int] | None = None,
    run: int = 1,
    settled: dict[str, tuple[int, frozenset[str]]] | None = None,
    blocks: list[bytes] | None = None,
) -> Described:
    heads = [b"head"] if blocks is None else blocks
    return Described(b"", epoch, run, replicas, promoted or {}, heads, 0, 0, settled=settled or {})


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
            draw(
                st.dictionaries(
                    st.sampled_from(NAMES), st.tuples(epochs, st.frozensets(st.sampled_from(NAMES), max_size=2))
                )
            ),
            draw(st.sampled_from([[], [b"head"]])),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    }
    return newest, before, described


@given(worlds())
def test_a_repair_counts_every_share_exactly_once(world: tuple[Manifest, Manifest, dict[str, Described]]) -> None:
    newest, before, described = world
    repair = plan_repair(newest, before, 0, RUN, described)
    if isinstance(repair, str):
        assert "lost" in repair
        return
    survivors = set(repair.holders)
    for one in newest.agents:
        assert (one.incarnation in survivors) != (one.incarnation in repair.moved)
    assert survivors <= described.keys()
    assert all(described[name].run <= RUN for name in survivors)
    counted: list[str] = []  # what those that go on will have as their own
    for name in survivors:
        held = described[name]
        own = {name} | {source for source, at in held.promoted.items() if at == EPOCH and held.run >= newest.run}
        for source, standby in repair.promotions.items():
            if standby == name:
                settled, taken = held.settled.get(source, (-1, frozenset()))
                assert settled == EPOCH or held.replicas[source] >= EPOCH - 1
                own |= {source} | (taken if settled == EPOCH else set())
        counted += own & {one.incarnation for one in newest.agents}
    assert sorted(counted) == sorted(one.incarnation for one in newest.agents)
    for source, standby in repair.in_sync.items():
        assert {source, standby} <= survivors


def test_a_lost_agent_is_replaced_by_its_standby() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    repair = plan_repair(newest, newest, 0, RUN, {two: holding(EPOCH - 1, {one: EPOCH})})
    assert repair == Repair([two], {one: two}, {one: two}, {})


def test_one_that_was_replaced_and_lives_is_not_counted_again() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    held = {one: holding(EPOCH, {two: EPOCH}), two: holding(EPOCH, {}, {one: EPOCH})}
    assert plan_repair(newest, newest, 0, RUN, held) == Repair([two], {}, {one: two}, {})


def test_two_that_have_replaced_each_other_are_told_apart_by_their_runs() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    held = {one: holding(EPOCH, {}, {two: EPOCH}, run=3), two: holding(EPOCH, {}, {one: EPOCH}, run=2)}
    assert plan_repair(newest, newest, 0, RUN, held) == Repair([one], {}, {two: one}, {})


def test_a_replica_that_lacks_the_epoch_is_not_promoted() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two}, [one])
    assert "has not all of its blocks" in str(
        plan_repair(newest, newest, 0, RUN, {two: holding(EPOCH, {one: EPOCH - 1})})
    )
    assert "had no standby" in str(plan_repair(newest, newest, 0, RUN, {one: holding(EPOCH, {})}))


def test_one_that_has_released_what_is_needed_is_lost() -> None:
    one = NAMES[0]
    newest = as_of(EPOCH, [one], {}, [one])
    held = holding(EPOCH, {})
    assert isinstance(plan_repair(newest, newest, 0, RUN, {one: held}), Repair)
    assert "is lost" in str(plan_repair(newest, newest, 0, RUN, {one: replace(held, blocks=[], first_live_pane=1)}))


def test_one_that_lost_its_memory_is_lost() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one])
    for stale in (-1, EPOCH - 2):
        repair = plan_repair(newest, newest, 0, RUN, {one: holding(stale, {}), two: holding(EPOCH, {one: EPOCH})})
        assert isinstance(repair, Repair)
        assert repair.promotions == {one: two}


def test_state_of_a_run_that_the_checkpoint_does_not_know_is_not_taken() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    held = {name: holding(EPOCH, {}, run=RUN) for name in (one, two)}
    assert isinstance(plan_repair(newest, newest, 0, RUN, held), Repair)
    assert "put back behind" in str(plan_repair(newest, newest, 0, RUN - 1, held))


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH - 1])
def test_an_epoch_of_an_earlier_run_than_its_manifest_is_another_epoch(epoch: int) -> None:
    one = NAMES[0]
    newest = replace(as_of(EPOCH, [one], {}, [one]), run=5)
    held = holding(epoch, {}, run=5)
    assert isinstance(plan_repair(newest, newest, 0, RUN, {one: held}), Repair)
    assert "no longer has it" in str(plan_repair(newest, newest, 0, RUN, {one: replace(held, run=4)}))


def test_one_that_joined_since_the_manifest_has_the_replica() -> None:
    one, two, new, last = NAMES[:4]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    # The second one took the first one's share over, had it replicated, and is lost too.
    held = {new: holding(-1, {two: EPOCH}, run=2, settled={two: (EPOCH, frozenset({one}))}, blocks=[])}
    assert plan_repair(newest, newest, 0, RUN, held) == Repair([new], {two: new}, {one: new, two: new}, {})
    # So is the one that joined: the next one has a replica of an agent that no manifest names.
    settled = {new: (EPOCH, frozenset({one, two}))}
    held = {last: holding(-1, {new: EPOCH}, run=3, settled=settled, blocks=[])}
    assert plan_repair(newest, newest, 0, RUN, held) == Repair([last], {new: last}, {one: last, two: last}, {})


def test_a_replica_without_what_its_source_took_over_is_not_the_whole_state() -> None:
    one, two, three = NAMES[:3]
    newest = as_of(EPOCH, [one, two, three], {one: two, two: three, three: one}, [one, two, three])
    held = {three: holding(EPOCH, {two: EPOCH}, settled={two: (EPOCH, frozenset())})}
    told = str(plan_repair(newest, newest, 0, RUN, held))
    assert one[:8] in told
    assert f"its standby, {agent(two)}, does not answer either" in told


def test_of_two_replicas_the_one_with_what_its_source_took_over_is_promoted() -> None:
    one, two, three, new = NAMES[:4]
    newest = as_of(EPOCH, [one, two, three], {one: three, two: one, three: two}, [one, two, three])
    # The first one took the second one's share over, had both replicated, and is lost. The third one has the first
    # one's share alone, from before.
    held = {
        three: holding(EPOCH, {one: EPOCH}, run=2, settled={one: (EPOCH, frozenset())}),
        new: holding(-1, {one: EPOCH}, run=2, settled={one: (EPOCH, frozenset({two}))}, blocks=[]),
    }
    assert plan_repair(newest, newest, 0, RUN, held) == Repair([three, new], {one: new}, {one: new, two: new}, {})


def test_one_that_comes_back_is_replaced_by_a_replica_that_has_its_share_too() -> None:
    one, two, new = NAMES[:3]
    newest = as_of(EPOCH, [one, two], {one: two, two: one}, [one, two])
    settled = {two: (EPOCH, frozenset({one}))}
    held = {one: holding(EPOCH, {}), new: holding(-1, {two: EPOCH}, run=2, settled=settled, blocks=[])}
    assert plan_repair(newest, newest, 0, RUN, held) == Repair([new], {two: new}, {one: new, two: new}, {})


def test_a_replica_of_a_run_before_the_manifest_is_not_believed() -> None:
    one, new = NAMES[:2]
    newest = replace(as_of(EPOCH, [one], {}, [one]), run=5)
    held = {new: holding(-1, {one: EPOCH}, run=4, settled={one: (EPOCH, frozenset())}, blocks=[])}
    assert isinstance(plan_repair(newest, newest, 0, RUN, held), str)


def test_a_lost_share_without_live_panes_is_no_loss() -> None:
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one, two], {}, [one, two])
    held = {two: holding(EPOCH, {})}
    assert isinstance(plan_repair(newest, newest, 50, RUN, held), str)  # of a version that did not write what is held
    for share, is_lost in [({}, False), ({one: (49, 640)}, False), ({one: (50, 640)}, True)]:
        repair = plan_repair(replace(newest, held={two: (90, 1), **share}), newest, 50, RUN, held)
        if is_lost:
            assert "640 bytes, is lost" in str(repair)
        else:
            assert repair == Repair([two], {}, {}, {})


def test_an_agent_that_a_later_run_has_begun_with_anew_does_not_have_its_share() -> None:
    """That run has had its standby take over, which is lost by now."""
    one, two = NAMES[:2]
    newest = replace(as_of(EPOCH, [one, two], {one: two}, [one]), held={one: (100, 4096)})
    emptied = {one: holding(EPOCH, {}, run=RUN, blocks=[])}
    assert "answers, but no longer has it" in str(plan_repair(newest, None, 0, RUN, emptied))
    assert isinstance(plan_repair(newest, None, 101, RUN, emptied), Repair), "nothing of it is needed any more"
    assert isinstance(plan_repair(newest, None, 0, RUN, {one: holding(EPOCH, {}, run=RUN)}), Repair)


def test_what_a_later_run_has_cut_from_files_is_no_share_of_the_manifest() -> None:
    """It has given a part of the one agent's share to another, and replicas are of such parts."""
    one, two = NAMES[:2]
    newest = as_of(EPOCH, [one], {}, [])
    cut = {
        one: replace(holding(EPOCH, {}, run=RUN), restored_by=RUN),
        two: replace(holding(EPOCH, {}, run=RUN, settled={one: (EPOCH, frozenset())}), restored_by=RUN),
    }
    assert isinstance(plan_repair(newest, None, 0, RUN, cut), str)
    named = replace(newest, run=RUN)  # by that run itself, once it has logged an epoch
    assert isinstance(plan_repair(named, None, 0, RUN, cut), Repair)
