"""Folds many small blocks into few, in the background, so that fan-in and memory follow distinct keys, not epochs.

The compactor never touches what a merge may be reading: its result waits in `AgentState` until the next commit, and
only then are its inputs freed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyslash.agent.compaction.folding import Folding
from pyslash.errors import ArenaFullError, SlashError

if TYPE_CHECKING:
    from pyslash.agent.store.block_set import BlockSet
    from pyslash.agent.store.state import AgentState

SWEEP_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Compactor(threading.Thread):
    """Folds when there may be work, and sweeps every few seconds: the arena, and whatever else expires."""

    def __init__(
        self,
        state: AgentState,
        end_expired: Callable[[], None] = lambda: None,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        """Not started yet. `end_expired` is called with every sweep."""
        super().__init__(name="compactor", daemon=True)
        self._state = state
        self._folding = Folding(state)
        self._end_expired = end_expired
        self._sweep_seconds = sweep_seconds
        self._next_sweep = time.monotonic() + sweep_seconds
        self._look = threading.Event()
        self._ended = False

    def look(self) -> None:
        """Blocks were committed or panes released: there may be work."""
        self._look.set()

    def end(self) -> None:
        """Ends the thread after its current fold."""
        self._ended = True
        self._look.set()

    def run(self) -> None:
        """Until `end`."""
        while not self._ended:
            self._look.wait(max(0.0, self._next_sweep - time.monotonic()))
            self._look.clear()
            try:
                self.fold()
                self._sweep()
            except Exception:
                # The agent must outlive any one failure here; the next round tries again.
                _log.exception("compactor")

    def _sweep(self) -> None:
        # By the clock, not when there is nothing to fold: a busy query commits more often than that.
        if time.monotonic() < self._next_sweep:
            return
        self._next_sweep = time.monotonic() + self._sweep_seconds
        self._end_expired()
        if freed := self._state.sweep():
            _log.info("swept %d blocks that dead or late attempts left", freed)

    def fold(self) -> None:
        """Fold everything that is worth it now, one fold after the other."""
        failed: list[BlockSet] = []  # in this round: the others do not wait for them
        while not self._ended and (job := self._folding.begin(failed)) is not None:
            folded, needed = None, 0
            try:
                folded = self._folding.fold(job)
                _log.debug("query %s: folded %d blocks", job.query.hex()[:8], len(job.blocks))
            except SlashError as error:
                needed = error.wanted_bytes if isinstance(error, ArenaFullError) else 0
                _log.warning("query %s: %d blocks stay as they are: %s", job.query.hex()[:8], len(job.blocks), error)
                failed.append(job.block_set)
            finally:
                self._folding.end(job, folded, needed)
