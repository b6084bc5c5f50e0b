"""What is live of a query, as its agents have answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyslash._native import Head
from pyslash.protocol.client import LiveReply
from pyslash.protocol.descriptor import AgentDescriptor


@dataclass(frozen=True)
class LiveBlock:
    """A committed block: the agent that holds it, and its head."""

    agent: AgentDescriptor
    head: Head
    raw: bytes


def panes_of(blocks: list[LiveBlock]) -> set[int]:
    """The panes that these blocks have groups of."""
    return {pane for block in blocks for pane, _, _ in block.head.panes}


class LiveState:
    """The live blocks of each agent (by incarnation), as of the last commit, and what they take in memory."""

    def __init__(self) -> None:
        self.epoch = -1  # the last that was committed in this run
        self.used_bytes = 0
        self.spilled_bytes = 0
        self.memory: dict[str, dict[str, int]] = {}  # of each agent, by host and incarnation
        self._blocks: dict[str, dict[int, LiveBlock]] = {}  # of each agent, by offset and in its order
        self._answers: dict[str, int] = {}  # by agent: the number of the last one

    def blocks(self) -> list[LiveBlock]:
        """All of them."""
        return [block for blocks in self._blocks.values() for block in blocks.values()]

    def has(self, name: str) -> bool:
        """Whether an agent holds any."""
        return bool(self._blocks.get(name))

    def heard(self, agent: AgentDescriptor, reply: LiveReply) -> None:
        """An agent has told what has come and gone since its last answer."""
        name = agent.incarnation
        blocks = {} if reply.whole else self._blocks[name]
        for offset in reply.gone:
            blocks.pop(offset, None)
        if reply.heads:
            blocks |= {offset: LiveBlock(agent, Head(raw), raw) for offset, raw in reply.heads.items()}
            blocks = dict(sorted(blocks.items()))
        self._blocks[name], self._answers[name] = blocks, reply.answer

    def known(self, name: str) -> int:
        """The number of an agent's last answer; 0: there was none."""
        return self._answers.get(name, 0)

    def committed(self, epoch: int, replies: Mapping[AgentDescriptor, LiveReply]) -> None:
        """Every agent has made an epoch part of its state."""
        self.epoch = epoch
        for agent, reply in replies.items():
            self.heard(agent, reply)
        self.memory = {
            f"{agent.host}-{agent.incarnation[:8]}": {
                "used_bytes": reply.used_bytes,
                "arena_bytes": reply.arena_bytes,
                "spilled_bytes": reply.spilled_bytes,
            }
            for agent, reply in replies.items()
        }
        self.used_bytes = sum(reply.used_bytes for reply in replies.values())
        self.spilled_bytes = sum(reply.spilled_bytes for reply in replies.values())
