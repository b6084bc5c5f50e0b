"""Which agent is the standby of which, and how the state of an epoch is put together when agents are lost.

The state as of an epoch is one share for each agent of its manifest. A share may be taken from its agent or from that
agent's standby, and exactly one of them must be: both would count it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyslash.protocol.client import Described
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.streaming.manifest import Manifest


@dataclass(frozen=True)
class Repair:
    """How a state comes back from memory. Agents are named by their incarnations.

    `survivors` keep their shares; `promotions` maps a lost agent to the standby that takes its share over;
    `moved` is the same, with those that an earlier run has done; `in_sync` maps survivors to standbys that have all of
    their share.
    """

    survivors: list[AgentDescriptor]
    promotions: dict[str, str]
    moved: dict[str, str]
    in_sync: dict[str, str]

    def __str__(self) -> str:
        """For the log."""
        taken = ", ".join(f"{standby[:8]} for {source[:8]}" for source, standby in self.promotions.items())
        return f"{len(self.survivors)} agents, standbys promoted: {taken or 'none'}"


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
    newest: Manifest, before: Manifest | None, first_pane: int, described: Mapping[str, Described]
) -> Repair | str:
    """The repair of the state as of a manifest, or why there is none.

    Args:
        newest: the manifest.
        before: that of the epoch before it, if there is one.
        first_pane: the first one (microseconds) that is still needed. A driver that was replaced may have gone on, and
            released more.
        described: what each agent that answers holds.
    """
    epoch = newest.epoch
    earlier = {agent.incarnation for agent in before.agents} if before is not None else set()
    sent = {incarnation for incarnation, *_ in newest.blocks}

    def is_up_to_date(name: str) -> bool:
        held = described.get(name)
        if held is None or held.first_live_pane > first_pane:
            return False
        # The commit of the manifest's epoch may not have reached it yet; it will be repeated.
        return held.epoch == epoch or (held.epoch == epoch - 1 if name in earlier else not held.blocks)

    moved: dict[str, str] = {}
    # Later runs first: what an agent has taken over counts only if no later run has replaced that agent itself.
    for holder in sorted(described, key=lambda name: -described[name].run):
        if holder not in moved and is_up_to_date(holder):
            taken = [source for source, at in described[holder].promoted.items() if at == epoch]
            moved.update((source, holder) for source in taken if source not in moved)

    def holds_its_share(name: str) -> bool:
        return name not in moved and is_up_to_date(name)

    def keeps_replica(standby: str, source: str) -> bool:
        if not holds_its_share(standby):
            return False
        at = described[standby].replicas.get(source)
        return at == epoch or (at == epoch - 1 and source not in sent)

    if lost := [holder for holder in moved.values() if not holds_its_share(holder)]:
        return f"agents {', '.join(sorted(holder[:8] for holder in lost))} had taken over shares, and are lost"
    survivors = [agent for agent in newest.agents if holds_its_share(agent.incarnation)]
    promotions = {}
    for agent in newest.agents:
        name = agent.incarnation
        if holds_its_share(name) or name in moved:
            continue
        standby = newest.standbys.get(name)
        if standby is None:
            return f"{agent} is lost, and had no standby"
        if not keeps_replica(standby, name):
            return f"{agent} is lost, and its standby {standby[:8]} is too, or has not all of its blocks"
        promotions[name] = standby
    moved.update(promotions)
    grown = set(moved.values())
    in_sync = {
        source: standby
        for source, standby in newest.standbys.items()
        if holds_its_share(source) and source not in grown and keeps_replica(standby, source)
    }
    return Repair(survivors, promotions, moved, in_sync)
