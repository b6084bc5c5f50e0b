"""Loaded by every Python process of the executors of a fault test; in an agent it puts fault points into a landing,
compaction and folds of epochs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, TypeVar

if "pyslash.agent" in sys.orig_argv and "serve" in sys.orig_argv and "PYSLASH_TESTS_ARMED" in os.environ:
    from pyslash.agent.compaction.epoch_folding import EpochFolding
    from pyslash.agent.compaction.folding import Fold, Folded, Folding
    from pyslash.agent.gather import Gatherer

    class StruckGatherer(Gatherer):
        """Strikes when a range of a peer's block lies in a landing, and others do not yet."""

        def _read_peer(self, way: Any, blocks: Any, together: Any) -> str:
            order = Path(os.environ["PYSLASH_TESTS_ARMED"], "mid-landing")
            if not order.exists():
                return super()._read_peer(way, blocks, together)
            from tests.faults.strike import Strike

            first, *others = blocks
            transport = super()._read_peer(way, [first], together)
            if Strike.read(order).in_agent(way.peer):
                for offset, length in first.ranges:
                    first.memory.write(bytes([0xFF]) * length, first.place + offset)
            return super()._read_peer(way, others, together) if others else transport

    Made = TypeVar("Made")

    def struck(point: str, made: Made) -> Made:
        """Strikes when what is made lies in the arena, and nobody knows of it yet."""
        order = Path(os.environ["PYSLASH_TESTS_ARMED"], point)
        if order.exists():
            from tests.faults.strike import Strike

            Strike.read(order).in_fold()
        return made

    compact, fold = Folding.fold, EpochFolding.folded

    def struck_compaction(folding: Folding, job: Fold) -> Folded:
        return struck("blocks compacted", compact(folding, job))

    def struck_fold(folding: EpochFolding, *given: Any) -> tuple[list[bytes], list[Exception]]:
        return struck("epoch folded", fold(folding, *given))

    Folding.fold = struck_compaction  # type: ignore[method-assign]
    EpochFolding.folded = struck_fold  # type: ignore[method-assign]

    import pyslash.agent.gather

    pyslash.agent.gather.Gatherer = StruckGatherer  # type: ignore[misc]
