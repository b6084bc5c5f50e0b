"""Which agents fold an epoch's blocks before these are stored and read, and what that has saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from pyslash._native import Head
from pyslash.cluster.agent_group import AgentGroup, name_of
from pyslash.cluster.reported import ReportedBlocks
from pyslash.protocol.client import AgentClient
from pyslash.protocol.messages import Fold
from pyslash.state.receipt import Receipt
from pyslash.units import Epoch, Run

# Where folding leaves more than this part of the bytes, tasks have few keys in common: it is tried again later.
_WORTH_IT = 0.8
_EPOCHS_WITHOUT = 16


@dataclass(frozen=True)
class FoldFigures:
    """Blocks of an epoch that were folded, their bytes, and the bytes of what they have become."""

    folded: int = 0
    folded_bytes: int = 0
    folded_into_bytes: int = 0


class Folds:
    """Of one query, in one run."""

    def __init__(self, group: AgentGroup, plan: str, run: Run, timeout_seconds: float, most_blocks: int) -> None:
        """An agent with more than `most_blocks` blocks of an epoch folds them; 0: none does."""
        self._group = group
        self._plan = plan
        self._run = run
        self._timeout = timeout_seconds
        self._most = most_blocks
        self._rest = 0  # epochs that go without

    def fold(self, epoch: Epoch, receipts: Sequence[Receipt]) -> tuple[list[Receipt], FoldFigures]:
        """The blocks of an epoch, folded where it is worth it.

        Raises:
            CorruptBlockError: a block fails a check.
            StateLostError: an agent is gone.
        """
        many = self._many(receipts)
        if not many:
            return list(receipts), FoldFigures()
        if self._rest:
            self._rest -= 1
            return list(receipts), FoldFigures()
        self._group.add_agents([blocks[0].agent for blocks in many.values()])
        reported = ReportedBlocks.by(chain.from_iterable(many.values()))

        def fold(client: AgentClient) -> list[bytes]:
            blocks = reported.of(name_of(client))
            if not blocks:
                return []
            request = Fold(epoch, list(blocks), self._plan, self._run, list(blocks.values()))
            return client.fold(request, self._timeout)

        answers = self._group.each(fold)
        done = {name for name, heads in answers.items() if heads}
        made = [Receipt(self._group.agent(name), Head(raw), raw) for name in done for raw in answers[name]]
        before = [receipt for name in done for receipt in many[name]]
        figures = FoldFigures(len(before), _bytes(before), _bytes(made))
        if figures.folded_into_bytes > _WORTH_IT * figures.folded_bytes:
            self._rest = _EPOCHS_WITHOUT
        kept = [receipt for receipt in receipts if receipt.agent.incarnation not in done]
        return [*kept, *made], figures

    def _many(self, receipts: Sequence[Receipt]) -> dict[str, list[Receipt]]:
        """The blocks of each agent that has enough of them to fold them."""
        if not self._most:
            return {}
        found: dict[str, list[Receipt]] = {}
        for receipt in receipts:
            if receipt.head.length:
                found.setdefault(receipt.agent.incarnation, []).append(receipt)
        return {name: blocks for name, blocks in found.items() if len(blocks) > self._most}


def _bytes(receipts: Sequence[Receipt]) -> int:
    return sum(receipt.head.length for receipt in receipts)
