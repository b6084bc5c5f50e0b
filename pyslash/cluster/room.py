"""Room in the agents' arenas: what is full spills to disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from pyslash.cluster.agent_group import AgentGroup, name_of
from pyslash.errors import ArenaFullError, SpillError
from pyslash.protocol.client import AgentClient, LiveReply
from pyslash.protocol.messages import MakeRoom
from pyslash.state.version import StateVersion
from pyslash.units import Epoch, Run

# An arena that is fuller than this part of it when an epoch begins spills before its tasks find it full.
_HIGH_WATER = 0.75
MOST_SPILLS = 4

Result = TypeVar("Result")
logger = logging.getLogger("pyslash")


class Room:
    """Makes room for the blocks of one query."""

    def __init__(
        self, group: AgentGroup, version: StateVersion, run: Run, spill: tuple[str, int], timeout_seconds: float
    ) -> None:
        """`version` learns where blocks lie that have moved. `spill`: the directory, empty for the agent's choice, and
        the most bytes in it.
        """
        self._group = group
        self._version = version
        self._run = run
        self._spill = spill
        self._timeout = timeout_seconds
        self._full: set[str] = set()
        self.used_bytes = 0
        self.spilled_bytes = 0
        self.memory: dict[str, dict[str, int]] = {}  # of each agent, by host and incarnation

    def committed(self, replies: Mapping[str, LiveReply]) -> None:
        """See what is used after a commit, and which arenas are nearly full."""
        self.used_bytes = sum(reply.used_bytes for reply in replies.values())
        self.spilled_bytes = sum(reply.spilled_bytes for reply in replies.values())
        self.memory = {
            f"{self._group.agent(name).host}-{name[:8]}": {
                "used_bytes": reply.used_bytes,
                "arena_bytes": reply.arena_bytes,
                "spilled_bytes": reply.spilled_bytes,
            }
            for name, reply in replies.items()
        }
        self._full = {name for name, reply in replies.items() if reply.used_bytes > _HIGH_WATER * reply.arena_bytes}

    def make_ahead(self, epoch: Epoch) -> None:
        """Before an epoch's update: agents whose arenas are nearly full spill, if they can."""
        full, self._full = self._full, set()
        if full:
            try:
                self._make(epoch, 0, full, empties=False)
            except SpillError as error:
                logger.warning("epoch %d starts with little free memory in an arena: %s", epoch, error)

    def make_for(self, epoch: Epoch, call: Callable[[], Result], most: int = MOST_SPILLS) -> Result:
        """The result of a call for an uncommitted epoch. If an arena is full, agents spill, and the call is repeated,
        at most so many times.

        Raises:
            SpillError: no more can be spilled; the message has the numbers.
            ArenaFullError: the call needs more than all of an arena.
        """
        for spills in range(most):
            try:
                return call()
            except ArenaFullError as error:
                logger.warning("epoch %d: an arena is full, agents spill to disk: %s", epoch, error)
                # An epoch that found no room in half of the arena gets all of it.
                self._make(epoch, error.wanted_bytes, set(self._group.names), empties=spills > 0)
        return call()

    def _make(self, epoch: Epoch, size: int, agents: set[str], empties: bool) -> None:
        request = MakeRoom(epoch, self._run, size, *self._spill, empties)

        def make(client: AgentClient) -> None:
            name = name_of(client)
            if name not in agents:
                return
            try:
                client.make_room(request, self._timeout)
            finally:  # some blocks may have moved
                reply = client.live(self._run, self._version.known(name))
                self._version.apply(self._group.agent(name), reply.edit)

        self._group.each(make)
