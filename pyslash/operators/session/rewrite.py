"""The task that rewrites open sessions: its range of all blocks becomes one block, with one entry for each session."""

from __future__ import annotations

from dataclasses import dataclass

from pyslash._native import Plan, SessionMerger
from pyslash.emit.fetch import Fetch, equal_cuts
from pyslash.emit.merge import PREFIXES
from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.plan.emission import EVERY_END_US
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import Right, query_token
from pyslash.units import Micros


@dataclass(frozen=True)
class RewriteSessions:
    """A function of a task's number, for a task to run.

    `publisher` has the plan with the place that sessions go to; `blocks` are (agent, raw head) of all blocks that hold
    parts of sessions in `pane`; sessions that end by `evicted_us` (microseconds) are over. `timeout_seconds` bounds
    each read.
    """

    publisher: BlockPublisher
    blocks: list[tuple[AgentDescriptor, bytes]]
    pane: int
    evicted_us: Micros
    tasks: int
    transport: str
    timeout_seconds: float

    def __call__(self, task: int) -> bytes:
        """Runs in the executor; the receipt.

        Raises:
            CorruptBlockError: a block is not what its task has written.
            StaleIncarnationError, AgentError: an agent that holds blocks is gone, or does not answer.
            AgentStartError, ArenaFullError, SpillError: as `BlockPublisher.published`.
        """
        publisher = self.publisher
        prefixes = equal_cuts((0, PREFIXES), self.tasks)[task]

        def merged(partition: int) -> SessionMerger:
            credentials = (publisher.query, query_token(publisher.secret, publisher.query, Right.READ))
            panes = (self.pane, self.pane + 1)
            fetch = Fetch(self.blocks, panes, self.transport, credentials, self.timeout_seconds)
            merger = SessionMerger(Plan(publisher.plan), self.pane, self.evicted_us, EVERY_END_US, *prefixes)
            for raw, offset, buffer in fetch.whole(prefixes).pieces:
                merger.add(raw, offset, buffer)
            return merger

        return publisher.published(merged)
