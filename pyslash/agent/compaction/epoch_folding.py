"""Folds an epoch's blocks before anybody has read or stored them, so that both cost an executor's keys, not its tasks'.

Each of the agent's cores takes a share of the keys' hash prefixes: the blocks that come out have no key in common.
"""

from __future__ import annotations

import base64
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyslash._native import Head, Plan, compact
from pyslash.agent.store.published import reported
from pyslash.errors import ArenaFullError
from pyslash.protocol.messages import Fold
from pyslash.units import BEFORE_ALL_PANES

if TYPE_CHECKING:
    from pyslash.agent.store.state import AgentState

_MOST_SHARES = 16  # each of them walks over the heads of all blocks


def shares_on(cores: int) -> int:
    """Into how many shares an agent folds on so many cores.

    >>> [shares_on(cores) for cores in (1, 2, 6, 16, 64)]
    [1, 2, 4, 16, 16]
    """
    return 1 << (min(cores, _MOST_SHARES).bit_length() - 1)


class EpochFolding:
    """Folds with the lock of the agent's state only where blocks are looked up and freed."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._shares = shares_on(len(os.sched_getaffinity(0)))
        self._threads: ThreadPoolExecutor | None = None

    def fold(self, query: bytes, request: Fold) -> dict[str, Any]:
        """Replaces the blocks of an epoch that is not committed. The answer has the heads of the new ones (Base64),
        none if there was no room for them: the blocks are as they were then.

        Raises:
            InvalidRequestError: an offset is no published block of this query and epoch.
            FencedError: a later run holds the query.
            CorruptBlockError: a block fails a check.
        """
        state = self._state
        with state.lock:
            self._check(query, request)
        heads, failures = self.folded(query, request)
        with state.lock:
            # If the driver has given up meanwhile, others' blocks may lie there now, and ours go with a sweep.
            self._check(query, request)
            if failures:
                state.holding.free_when_unpinned([Head(head).arena_offset for head in heads])
                heads = []
            else:
                state.holding.free_when_unpinned(request.offsets)
                state.counters["folds"] += 1
        if others := [failure for failure in failures if not isinstance(failure, ArenaFullError)]:
            raise others[0]
        return {"heads": [base64.b64encode(head).decode() for head in heads]}

    def _check(self, query: bytes, request: Fold) -> None:
        held = self._state.state_for(query, request.plan, request.run)
        reported(self._state.arena, query, held, request)

    def folded(self, query: bytes, request: Fold) -> tuple[list[bytes], list[Exception]]:
        """The head of each share that has a group, and what has failed."""
        plan, arena = Plan(request.plan), self._state.arena
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._shares, "fold")
        futures = [
            self._threads.submit(
                compact,
                plan,
                arena,
                request.offsets,
                BEFORE_ALL_PANES,
                query,
                request.epoch,
                share=share,
                shares=self._shares,
            )
            for share in range(self._shares)
        ]
        heads: list[bytes] = []
        failures: list[Exception] = []
        for future in futures:
            try:
                if head := future.result():
                    heads.append(head)
            except Exception as failure:
                failures.append(failure)
        return heads, failures
