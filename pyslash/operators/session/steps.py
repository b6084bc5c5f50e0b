"""The epochs of session windows: parts of sessions are merged in each epoch, and kept where that is done.

From time to time open sessions are rewritten, which bounds the memory of sessions that never end (docs/design/028).
"""

from __future__ import annotations

from dataclasses import replace

from pyslash.emit.merge import HomeUpdate
from pyslash.operators.aggregation import Aggregation
from pyslash.operators.base import EpochInputs, RunTools, Update
from pyslash.operators.session.plan import SessionPlan
from pyslash.operators.session.rewrite import RewriteSessions
from pyslash.plan.spec import SessionPlace
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.job import run_numbered
from pyslash.state.manifest import Manifest
from pyslash.state.receipt import Receipt, reported_heads
from pyslash.state.version import heads_of
from pyslash.units import Epoch

# Sessions are rewritten once they take this many times what they took after the last rewrite: an entry is then
# written about once more for each that is made.
_GROWTH = 4


class SessionAggregation(Aggregation):
    """The epochs of an aggregation by session windows, all of whose sessions are in one pane."""

    plan_type = SessionPlan
    folds = False

    def __init__(self, plan: SessionPlan, run: RunTools) -> None:
        super().__init__(plan, run)
        self._sessions = plan
        self._rewritten = 0  # bytes, the last time

    def pane(self, epoch: Epoch, last_pane: int) -> int:
        """The pane that holds the sessions, or a new one, of the epoch's number, into which they are rewritten."""
        held = self._run.coordinator.version.size_within(last_pane, last_pane + 1)
        is_grown = held.bytes > max(_GROWTH * self._rewritten, self._run.conf.session_rewrite_bytes)
        return epoch if is_grown else last_pane

    def update(self, inputs: EpochInputs) -> Update:
        """Write what is still open into a new pane, if there is one, and the epoch's parts of sessions to the same."""
        written = self._taken(inputs)
        if inputs.pane != inputs.last_pane:
            held = self._run.coordinator.version.within(inputs.last_pane, inputs.last_pane + 1)
            rewritten = self._write(inputs, inputs.last_pane, heads_of(held))
            self._rewritten = sum(receipt.head.length for receipt in rewritten)
            written += rewritten
        rows = self._take_rows(inputs, SessionPlace(inputs.pane, inputs.watermarks.evicted_us))
        return Update([*written, *rows], rows)

    def _taken(self, inputs: EpochInputs) -> list[Receipt]:
        """Write the sessions of backfills as parts that come with the epoch: those emitted before take none of them."""
        panes, blocks = sorted(inputs.taken_panes), reported_heads(inputs.taken)
        return [receipt for pane in panes for receipt in self._write(inputs, pane, blocks)]

    def _write(self, inputs: EpochInputs, pane: int, blocks: list[tuple[AgentDescriptor, bytes]]) -> list[Receipt]:
        """Write what is still open of a pane of these blocks into that of the epoch, as blocks of the epoch."""
        run, session = self._run, inputs.batch.session
        tasks = session.sparkContext.defaultParallelism
        evicted_us = inputs.watermarks.evicted_us
        plan = self.plan.spec.placed(SessionPlace(inputs.pane, evicted_us))
        rewrite = RewriteSessions(
            publisher=replace(run.ingest.publisher(inputs.batch, inputs.epoch, evicted_us), plan=plan),
            blocks=blocks,
            pane=pane,
            evicted_us=evicted_us,
            tasks=tasks,
            transport=run.conf.transport,
            timeout_seconds=run.conf.agent_call_timeout,
        )
        return [Receipt.parse(receipt) for receipt in run_numbered(session, tasks, rewrite)]

    def _kept(self, manifest: Manifest) -> HomeUpdate:
        """What executors keep of the epoch's sessions."""
        step = manifest.evicting_step
        is_rewritten = manifest.pane == manifest.epoch  # the epoch's blocks hold all there is
        return HomeUpdate(
            step=replace(step, before="") if is_rewritten else step,
            epoch=manifest.epoch,
            evicted_us=manifest.emitted_us,
            pane=manifest.pane,
            closing_us=self._sessions.emission.closing_us(manifest.watermark_us),
        )
