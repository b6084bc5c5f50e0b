"""Folding many small blocks into few, in the background: fan-in and memory follow distinct keys, not epochs.

The compactor never touches what a merge may be reading: its result waits in `AgentState` until the next commit, and
only then do the inputs go.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyslash.errors import SlashError

if TYPE_CHECKING:
    from pyslash.agent.share import LiveBlock
    from pyslash.agent.state import AgentState

MAX_BLOCKS = 8
# A block this many times larger than all smaller ones together is left alone: to rewrite it costs more than it folds.
_DOMINANCE = 2
SWEEP_SECONDS = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """A finished compaction: these blocks are replaced by that one (None: all their panes were dead)."""

    inputs: tuple[int, ...]
    block: LiveBlock | None

    def offsets(self) -> list[int]:
        """Where the new block lies; empty if there is none."""
        return [] if self.block is None else [self.block.offset]


def choose_inputs(blocks: Iterable[LiveBlock], first_live_pane: int) -> list[int]:
    """Offsets of the blocks to fold; empty if it is not worth it yet.

    All of them when more than half of the bytes are dead panes. Otherwise the small ones, once they are more than
    `MAX_BLOCKS`: a block that dwarfs the rest is skipped, so each byte is rewritten a logarithmic number of times.
    """
    by_size = sorted(blocks, key=lambda block: -block.length)
    total = sum(block.length for block in by_size)
    dead = sum(block.dead_bytes(first_live_pane) for block in by_size)
    if 2 * dead > total:
        return [block.offset for block in by_size]
    rest = total
    while by_size and by_size[0].length > _DOMINANCE * (rest - by_size[0].length):
        rest -= by_size.pop(0).length
    return [block.offset for block in by_size] if len(by_size) > MAX_BLOCKS else []


class Compactor(threading.Thread):
    """Folds when asked to look, and sweeps the arena every few seconds."""

    def __init__(self, state: AgentState, sweep_seconds: float = SWEEP_SECONDS) -> None:
        """Not started yet."""
        super().__init__(name="compactor", daemon=True)
        self._state = state
        self._sweep_seconds = sweep_seconds
        self._look = threading.Event()
        self._ended = False

    def look(self) -> None:
        """Blocks were committed or panes released: there may be work."""
        self._look.set()

    def end(self) -> None:
        """Ends the thread after what it is at."""
        self._ended = True
        self._look.set()

    def run(self) -> None:
        """Until `end`."""
        while not self._ended:
            asked = self._look.wait(self._sweep_seconds)
            self._look.clear()
            try:
                self._fold()
                if not asked and (freed := self._state.sweep()):
                    _log.info("swept %d blocks that dead or late attempts left", freed)
            except Exception:
                # The agent must outlive any one failure here; the next round tries again.
                _log.exception("compactor")

    def _fold(self) -> None:
        while not self._ended and (job := self._state.begin_compaction()) is not None:
            head: bytes | None = None
            try:
                head = self._state.compact(job)
                _log.info("query %s: folded %d blocks", job.query.hex()[:8], len(job.offsets))
            except SlashError as error:
                _log.warning("query %s: %d blocks stay as they are: %s", job.query.hex()[:8], len(job.offsets), error)
                return
            finally:
                self._state.end_compaction(job, head)
