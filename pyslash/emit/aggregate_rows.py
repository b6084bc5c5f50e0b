"""The task of an owner of repartitioned rows: aggregates its range of every block of rows into one block of state."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pyslash._native import Accumulator, Head
from pyslash.emit.fetch import Fetch
from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import Right, query_token

_PANE_OF_ROWS = (0, 1)


@dataclass(frozen=True)
class AggregateRows:
    """A function of an owner's number, for a task to run.

    `publisher` has the plan to aggregate by; `blocks` are (agent, raw head) of all blocks of rows, in 2**bits buckets;
    `timeout_seconds` bounds each read.
    """

    publisher: BlockPublisher
    blocks: list[tuple[AgentDescriptor, bytes]]
    bits: int
    owners: int
    transport: str
    timeout_seconds: float

    def __call__(self, owner: int) -> tuple[bytes, Counter[str]]:
        """Runs in the executor.

        Returns:
            The receipt, and the bytes that were read by transport.

        Raises:
            CorruptBlockError: rows are not what their task has written.
            StaleIncarnationError, AgentError: an agent that holds rows is gone, or does not answer.
            AgentStartError, ArenaFullError, SpillError: as `BlockPublisher.published`.
        """
        publisher, shuffled = self.publisher, Counter[str]()
        credentials = (publisher.query, query_token(publisher.secret, publisher.query, Right.READ))
        fetch = Fetch(self.blocks, _PANE_OF_ROWS, self.transport, credentials, self.timeout_seconds)

        def fill(accumulator: Accumulator) -> None:
            for part in fetch.parts(self.prefixes_of(owner), self._bucket):
                for raw, offset, buffer in part.pieces:
                    accumulator.add_block(Head(raw), offset, buffer)
                for transport, size in part.moved:
                    shuffled[transport] += size

        return publisher.sealed(fill), shuffled

    def prefixes_of(self, owner: int) -> tuple[int, int]:
        """The hash prefixes of an owner: whole buckets, so that each segment has one reader."""
        first, end = (bound * (1 << self.bits) // self.owners for bound in (owner, owner + 1))
        return first * self._bucket, end * self._bucket

    @property
    def _bucket(self) -> int:
        """Prefixes of one bucket."""
        return 1 << (32 - self.bits)
