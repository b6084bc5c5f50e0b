"""Which agent is the standby of which, and how the state of an epoch is put together when agents are lost.

The state as of an epoch is one share for each agent of its manifest. A share may be taken from its agent or from that
agent's standby, and exactly one of them must be: both would count it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyslash.protocol.client import Described
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.manifest import Manifest
from pyslash.units import NO_EPOCH, Run


@dataclass(frozen=True)
class Repair:
    """How a state comes back from memory. Agents are named by their incarnations.

    `holders` go on with what they hold; `promotions` maps an agent that is lost, or was replaced, to the standby whose
    replica of it becomes that standby's own; `moved` maps agents of the manifest to those that have their shares from
    now on, or have had them since an earlier run; `in_sync` maps holders to standbys that have all of their share.
    """

    holders: list[str]
    promotions: dict[str, str]
    moved: dict[str, str]
    in_sync: dict[str, str]

    def __str__(self) -> str:
        """For the log."""
        taken = ", ".join(f"{standby[:8]} for {source[:8]}" for source, standby in self.promotions.items())
        return f"{len(self.holders)} agents, standbys promoted: {taken or 'none'}"


def choose_standbys(agents: Iterable[AgentDescriptor], current: Mapping[str, str]) -> dict[str, str]:
    """For each agent the next one, on another host if there is one; existing choices are kept.

    Empty if there is only one agent.
    """
    ring = sorted(agents, key=lambda agent: agent.incarnation)
    chosen = {}
    for index, agent in enumerate(ring):
        others = ring[index + 1 :] + ring[:index]
        elsewhere = [other.incarnation for other in others if other.boot_id != agent.boot_id]
        candidates = elsewhere or [other.incarnation for other in others]
        if candidates:
            known = current.get(agent.incarnation)
            chosen[agent.incarnation] = known if known in candidates else candidates[0]
    return chosen


def plan_repair(
    newest: Manifest, before: Manifest | None, first_pane: int, run_before: Run, described: Mapping[str, Described]
) -> Repair | str:
    """The repair of the state as of a manifest, or why there is none: what is lost.

    Args:
        newest: the manifest.
        before: that of the epoch before it, if there is one.
        first_pane: the first one (microseconds) that is still needed. A driver that was replaced may have gone on, and
            released more.
        run_before: the newest run that the checkpoint knows. What an agent holds of a later one is of batches that the
            checkpoint has gone back behind.
        described: what each agent that answers holds, whether the manifest names it or not.
    """
    witnesses = _Witnesses(newest, before, first_pane, run_before, described)
    found = _Cover(witnesses)
    for name in sorted(described, key=lambda name: (-described[name].run, -len(witnesses.taken_by(name)), name)):
        found.take_what_it_holds(name)
    needed = [agent for agent in newest.agents if _is_needed(newest, agent.incarnation, first_pane)]
    for agent in needed:
        found.look_for_replica(agent.incarnation)
    lost = [agent for agent in needed if agent.incarnation not in found.holder_of]
    if lost:
        return "; ".join(_how_lost(agent, newest, described, witnesses) for agent in lost)
    return found.repair(newest)


def _is_needed(newest: Manifest, name: str, first_pane: int) -> bool:
    """Whether the share of an agent may hold a pane that is still needed."""
    if newest.held is None:
        return True  # of a version that did not write it
    last_pane, _ = newest.held.get(name, (None, 0))
    return last_pane is not None and last_pane >= first_pane


def _how_lost(
    agent: AgentDescriptor, newest: Manifest, described: Mapping[str, Described], witnesses: _Witnesses
) -> str:
    name = agent.incarnation
    size = "" if newest.held is None else f", {newest.held[name][1]} bytes"
    what = f"the share of {agent}{size}, is lost: it "
    if name not in described:
        what += "does not answer"
    elif witnesses.is_ahead(name):
        what += "answers, but holds state of a later start, which the checkpoint was put back behind"
    else:
        what += "answers, but no longer has it"
    standby = newest.standbys.get(name)
    if standby is None:
        return f"{what}, and it had no standby when that epoch was logged"
    keeper = next((str(one) for one in newest.agents if one.incarnation == standby), f"agent {standby[:8]}")
    if standby not in described:
        return f"{what}, and its standby, {keeper}, does not answer either"
    has = "answers, but has not all of its blocks" if witnesses.is_up_to_date(standby) else "is not up to date itself"
    return f"{what}, and its standby, {keeper}, {has}"


class _Witnesses:
    """What agents say that they hold of the state as of a manifest, as far as that may be believed."""

    def __init__(
        self,
        newest: Manifest,
        before: Manifest | None,
        first_pane: int,
        run_before: Run,
        described: Mapping[str, Described],
    ) -> None:
        self._newest = newest
        self._first_pane = first_pane
        self._run_before = run_before
        self._described = described
        self._earlier = {agent.incarnation: before.run for agent in before.agents} if before is not None else {}
        self._sent = {incarnation for incarnation, *_ in newest.blocks}
        self.shares = {agent.incarnation for agent in newest.agents}

    def taken_by(self, name: str) -> frozenset[str]:
        """The shares that an agent has taken over as of the epoch, since a run that knew its manifest."""
        held = self._described[name]
        if held.run < self._newest.run:
            return frozenset()
        return frozenset(s for s, at in held.promoted.items() if at == self._newest.epoch) & self.shares

    def is_ahead(self, name: str) -> bool:
        """Whether an agent that answers knows a run that the checkpoint does not."""
        return self._described[name].run > self._run_before

    def is_up_to_date(self, name: str) -> bool:
        """Whether what an agent holds as its own is of the state, and all of it."""
        held, epoch = self._described.get(name), self._newest.epoch
        if held is None or held.first_live_pane > self._first_pane or self.is_ahead(name):
            return False
        if held.restored_by > self._newest.run:
            return False  # from files, which were cut into other shares than the manifest's, maybe for other agents
        if name not in self.shares:
            return not held.blocks or (held.epoch <= epoch and bool(self.taken_by(name)))
        if held.epoch == epoch and not held.blocks and self._has_share(name):
            return False  # a later run has begun with it anew
        # The commit of the manifest's epoch may not have reached it yet; it will be repeated.
        # An epoch of an earlier run than its manifest's is another one: the checkpoint has gone back behind it since.
        if held.epoch == epoch:
            return held.run >= self._newest.run
        if name in self._earlier:
            return held.epoch == epoch - 1 and held.run >= self._earlier[name]
        return not held.blocks or (held.epoch < 0 and bool(self.taken_by(name)))

    def _has_share(self, name: str) -> bool:
        """Whether the manifest says that an agent holds something that is still needed."""
        return self._newest.held is not None and _is_needed(self._newest, name, self._first_pane)

    def own(self, name: str) -> frozenset[str]:
        """The shares that an agent holds as its own, if it is up to date."""
        return self.taken_by(name) | (self.shares & {name})

    def replica(self, keeper: str, source: str) -> frozenset[str]:
        """The shares in a replica, if its keeper is up to date; none if it is not of the epoch."""
        held, epoch = self._described[keeper], self._newest.epoch
        settled, taken = held.settled.get(source, (NO_EPOCH, frozenset()))
        if settled == epoch and held.run >= self._newest.run:
            return (taken | {source}) & self.shares
        # With blocks on their way it is to be trusted where the manifest says that they were the epoch's.
        at = held.replicas.get(source)
        if self._newest.standbys.get(source) == keeper and (
            at == epoch or (at == epoch - 1 and source not in self._sent)
        ):
            return frozenset({source})
        return frozenset()

    def is_followed(self, keeper: str, source: str) -> bool:
        """Whether a keeper's replica of the epoch is settled, or will be by the commit that is repeated."""
        held, epoch = self._described[keeper], self._newest.epoch
        return held.epoch < epoch or held.settled.get(source, (NO_EPOCH, frozenset()))[0] == epoch

    def replicas(self, keeper: str) -> list[str]:
        """The agents that a keeper has something of."""
        held = self._described[keeper]
        return sorted(held.replicas.keys() | held.settled.keys())


class _Cover:
    """Holders that together have each share exactly once."""

    def __init__(self, witnesses: _Witnesses) -> None:
        self._witnesses = witnesses
        self._keepers: list[str] = []  # up to date, and not replaced: their replicas can be promoted
        self._promotions: dict[str, str] = {}
        self.holder_of: dict[str, str] = {}

    def take_what_it_holds(self, name: str) -> None:
        """Call it for later runs first: an agent counts only if no later run has replaced it, and then as a whole."""
        if not self._witnesses.is_up_to_date(name):
            return
        own = self._witnesses.own(name)
        if own.isdisjoint(self.holder_of):
            self._keepers.append(name)
            self.holder_of.update(dict.fromkeys(own, name))

    def look_for_replica(self, share: str) -> None:
        """Have the keeper of a replica with a lost share take it over, with all that is in the replica."""
        if share in self.holder_of:
            return
        found = []
        for keeper in self._keepers:
            for source in self._witnesses.replicas(keeper):
                within = self._witnesses.replica(keeper, source)
                if share in within and source not in self._promotions:
                    replaced = {self.holder_of[one] for one in within if one in self.holder_of}
                    if all(self._may_replace(holder, keeper, within) for holder in replaced):
                        # Of two replicas of one agent, the one that has what the agent had taken over.
                        missing = len(within - self.holder_of.keys())
                        found.append((len(replaced), -missing, source != share, source, keeper, within, replaced))
        if not found:
            return
        *_, source, keeper, within, replaced = min(found)
        self._keepers = [one for one in self._keepers if one not in replaced]
        self._promotions[source] = keeper
        self.holder_of.update(dict.fromkeys(within, keeper))

    def _may_replace(self, holder: str, keeper: str, within: frozenset[str]) -> bool:
        return holder != keeper and holder not in self._promotions.values() and self._witnesses.own(holder) <= within

    def repair(self, newest: Manifest) -> Repair:
        holders = set(self.holder_of.values())
        held = {holder: {share for share, by in self.holder_of.items() if by == holder} for holder in holders}
        in_sync = {}
        for source in sorted(holders):
            complete = [
                keeper
                for keeper in self._keepers
                if keeper != source
                and self._witnesses.replica(keeper, source) == held[source]
                and self._witnesses.is_followed(keeper, source)
            ]
            if complete:
                in_sync[source] = min(complete, key=lambda keeper: (newest.standbys.get(source) != keeper, keeper))
        moved = {share: holder for share, holder in self.holder_of.items() if holder != share}
        return Repair(sorted(holders | set(in_sync.values())), self._promotions, moved, in_sync)
