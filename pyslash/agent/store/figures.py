"""What an agent tells of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyslash.units import BEFORE_ALL_PANES, BEFORE_ALL_RUNS, NO_EPOCH, Epoch

if TYPE_CHECKING:
    from pyslash.agent.store.state import AgentState


class Figures:
    """Looks at the agent's state with its lock held."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def describe(self, query: bytes) -> dict[str, Any]:
        """Incarnation, sizes, the last committed epoch (-1: none), its run, replicas and number of live blocks."""
        with self._state.lock:
            state = self._state.queries.get(query)
            return {
                "incarnation": self._state.incarnation.hex(),
                "epoch": NO_EPOCH if state is None else state.epoch,
                "run": BEFORE_ALL_RUNS if state is None else state.run,
                "replicas": {} if state is None else state.replica_epochs(),
                "promoted": {} if state is None else state.promoted,
                "settled": {} if state is None else state.settled_replicas(),
                "first_live_pane": BEFORE_ALL_PANES if state is None else state.first_live_pane,
                "blocks": 0 if state is None else len(state.own.live),
                "restored_by": BEFORE_ALL_RUNS if state is None else state.restored_by,
                **self._state.room(),
            }

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and bytes and blocks by query."""
        with self._state.lock:
            queries = {
                query.hex(): {
                    "epoch": state.epoch,
                    "blocks": len(state.own.live),
                    "bytes": state.own.total_bytes,
                    "replica_blocks": sum(len(replica.live) for replica in state.replicas.values()),
                    "replica_bytes": sum(replica.total_bytes for replica in state.replicas.values()),
                }
                for query, state in self._state.queries.items()
            }
            return {
                "counters": dict(self._state.counters),
                "queries": queries,
                "pinned": self._state.holding.pinned,
                **self._state.room(),
            }

    def taken_over(self, query: bytes, epoch: Epoch) -> list[str]:
        """The agents whose shares this one has taken over as of an epoch."""
        with self._state.lock:
            state = self._state.queries.get(query)
            return [] if state is None else [source for source, at in state.promoted.items() if at == epoch]
