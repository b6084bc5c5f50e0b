"""The replicas of a query's state: every agent's blocks are in the memory of another one, its standby."""

from __future__ import annotations

import logging

from pyslash.cluster.agent_group import AgentGroup, name_of
from pyslash.cluster.reported import ReportedBlocks
from pyslash.cluster.room import Room
from pyslash.cluster.standbys import choose_standbys
from pyslash.errors import ArenaFullError, SlashError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.messages import Replicate
from pyslash.state.receipt import Receipt
from pyslash.state.version import StateVersion
from pyslash.units import Epoch, Run

logger = logging.getLogger("pyslash")


class Replicas:
    """Keeps them complete. `standbys` maps agents to those that have all of their blocks as of the last epoch."""

    def __init__(
        self, group: AgentGroup, version: StateVersion, room: Room, plan: str, run: Run, timeout_seconds: float
    ) -> None:
        self.standbys: dict[str, str] = {}
        self._group = group
        self.version = version
        self._room = room
        self._plan = plan
        self._run = run
        self._timeout = timeout_seconds
        self._seconds = max(1, int(0.9 * timeout_seconds))  # what an agent says of its standby comes before our own

    def sources(self, standby: str) -> list[str]:
        """The agents whose replicas an agent has."""
        return [source for source, name in self.standbys.items() if name == standby]

    def send(self, epoch: Epoch, receipts: list[Receipt], transport: str) -> tuple[dict[str, str], int]:
        """Have every agent write its blocks of the epoch to its standby, all at once. Returns standbys and bytes.

        Where a standby is full, agents spill, and those that had no room for their blocks write them again.

        Raises:
            SpillError, ArenaFullError: a standby has no room.
            StateLostError: an agent is gone.
        """
        self._group.add_agents([receipt.agent for receipt in receipts])
        reported = ReportedBlocks.by(receipts)
        chosen, sent = choose_standbys(self._group.agents, self.standbys), dict[str, int]()

        def send(client: AgentClient) -> None:
            source = name_of(client)
            standby, own = chosen.get(source), reported.of(source)
            whole = standby != self.standbys.get(source)
            if standby is None or source in sent or not (own or whole):
                return
            to = self._group.agent(standby).to_json()
            heads = list(own.values())
            request = Replicate(
                epoch, list(own), self._plan, self._run, to, transport, whole, heads, timeout_seconds=self._seconds
            )
            sent[source] = client.replicate(request, self._timeout)

        self._room.make_for(epoch, lambda: self._group.each(send))
        self.standbys = chosen
        return chosen, sum(sent.values())

    def missing(self) -> dict[str, str]:
        """Agents with state of which no replica is complete, each with the standby that is to have one.

        None before the first commit of a run: its state comes from the checkpoint, and the epoch sends it.
        """
        if self.version.epoch < 0:
            return {}
        chosen = choose_standbys(self._group.agents, self.standbys)
        return {
            source: standby
            for source, standby in chosen.items()
            if self.version.has(source) and self.standbys.get(source) != standby
        }

    def resync(self, transport: str, may_spill: bool = True) -> int:
        """Have agents whose replicas are not complete write all that they hold to a standby, all at once; the bytes.

        What they hold is as of the last commit, and no other may be under way. What fails is left to the next epoch,
        which sends the same again. `may_spill`: nobody reads blocks at the same time.
        """
        epoch = self.version.epoch
        missing, sent = self.missing(), dict[str, int]()

        def send(client: AgentClient) -> None:
            source = name_of(client)
            standby = missing.get(source)
            if standby is None or source in sent:
                return
            to = self._group.agent(standby).to_json()
            request = Replicate(epoch, [], self._plan, self._run, to, transport, True, [], True, self._seconds)
            try:
                sent[source] = client.replicate(request, self._timeout)
                self.standbys[source] = standby
            except ArenaFullError:
                raise
            except SlashError as error:
                logger.warning("%s has no replica until the next epoch: %s", client.descriptor, error)

        try:
            if may_spill:
                self._room.make_for(Epoch(epoch + 1), lambda: self._group.each(send))
            else:
                self._group.each(send)
        except SlashError as error:
            logger.warning("epoch %d: not every agent has a replica until the next epoch: %s", epoch, error)
        return sum(sent.values())
