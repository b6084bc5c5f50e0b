"""Folding many small blocks into few, in the background: fan-in and memory follow distinct keys, not epochs.

The compactor never touches what a merge may be reading: its result waits in `AgentState` until the next commit, and
only then do the inputs go.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from pyslash.agent.folding import Folding
from pyslash.errors import SlashError

if TYPE_CHECKING:
    from pyslash.agent.state import AgentState

SWEEP_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Compactor(threading.Thread):
    """Folds when asked to look, and sweeps the arena every few seconds."""

    def __init__(self, state: AgentState, sweep_seconds: float = SWEEP_SECONDS) -> None:
        """Not started yet."""
        super().__init__(name="compactor", daemon=True)
        self._state = state
        self._folding = Folding(state)
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
        while not self._ended and (job := self._folding.begin()) is not None:
            folded = None
            try:
                folded = self._folding.fold(job)
                _log.info("query %s: folded %d blocks", job.query.hex()[:8], len(job.blocks))
            except SlashError as error:
                _log.warning("query %s: %d blocks stay as they are: %s", job.query.hex()[:8], len(job.blocks), error)
                return
            finally:
                self._folding.end(job, folded)
