"""The epochs of a deduplication within the watermark: which rows are emitted is settled before the epoch's manifest.

    update: the epoch's rows -> blocks of candidates, the first row of each key
    settle: a task for each core, with a range of keys of those blocks and of the state -> blocks of what is emitted

Only the blocks of the second job are the epoch's. Its commit frees the others, which its manifest does not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyslash.emit.merge import MergeRequest
from pyslash.emit.merging import arrow_schema
from pyslash.operators.aggregation import AggregationPlan
from pyslash.operators.base import EpochInputs, MergeInputs, RunTools, Update
from pyslash.operators.deduplication import Deduplication
from pyslash.operators.within_watermark.plan import WithinWatermarkPlan
from pyslash.operators.within_watermark.settle import Settle
from pyslash.plan.window import NO_WATERMARK_US, TimeWindow, first_live_pane, windows_between
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.job import run_numbered
from pyslash.state.receipt import Receipt, reported_heads
from pyslash.state.version import LiveBlock, heads_of
from pyslash.units import ALL_PANES


class DeduplicationWithinWatermark(Deduplication):
    """The epochs of a deduplication within the watermark."""

    plan_type = WithinWatermarkPlan
    folds = False

    def __init__(self, plan: WithinWatermarkPlan, run: RunTools) -> None:
        super().__init__(plan, run)
        self._expiring = plan

    def update(self, inputs: EpochInputs) -> Update:
        """Group the epoch's rows, and settle which groups are new."""
        candidates = self._take_rows(inputs)
        return Update(self._settle(inputs, candidates), candidates)

    def _settle(self, inputs: EpochInputs, candidates: list[Receipt]) -> list[Receipt]:
        """The receipts of the epoch's state."""
        written = [receipt for receipt in candidates if receipt.head.length > 0]
        if not written and not inputs.taken:
            return []
        plan, coordinator = self._expiring, self._run.coordinator
        # They are to hear of the epoch's commit, which frees the candidates, whatever else they hold.
        coordinator.group.add_agents([receipt.agent for receipt in written])
        state = coordinator.version
        evicted_us = inputs.last.watermark_us if inputs.last is not None else NO_WATERMARK_US
        live = windows_between(plan.window, state.panes(first_live_pane(plan.window, evicted_us)), evicted_us)
        tasks = inputs.batch.session.sparkContext.defaultParallelism
        whole = windows_between(TimeWindow.all_time(), {0}, NO_WATERMARK_US)
        new = reported_heads(written)
        held = heads_of(state.within(*_panes_of(plan, live)) if live else [])
        older = windows_between(plan.window, inputs.taken_panes, NO_WATERMARK_US)
        publisher = self._run.ingest.publisher(inputs.batch, inputs.epoch, NO_WATERMARK_US)
        settle = Settle(
            publisher=replace(publisher, plan=plan.text),
            candidates=self._request(plan.candidates, whole, new),
            state=self._request(plan, live, held) if live else None,
            history=self._request(plan, older, reported_heads(inputs.taken)) if older else None,
            keys=len(plan.keys),
            columns=plan.columns_of_candidates,
            time=plan.time_at,
            delay_us=plan.delay_us,
            evicted_us=evicted_us,
            emitted_us=inputs.watermarks.evicted_us,
            tasks=tasks,
        )
        return [Receipt.parse(receipt) for receipt in run_numbered(inputs.batch.session, tasks, settle)]

    def _request(
        self, plan: AggregationPlan, windows: list[int], blocks: Sequence[tuple[AgentDescriptor, bytes]]
    ) -> MergeRequest:
        reading = self._run.reading
        return MergeRequest(
            plan=plan.text,
            windows=windows,
            changed_in=None,
            panes=_panes_of(plan, windows),
            blocks=[*blocks],
            query_id=reading.query_id,
            token=reading.token,
            transport=reading.transport,
            schema=arrow_schema(plan.result_schema),
            timeout_seconds=reading.timeout_seconds,
        )

    def _alone(self, inputs: MergeInputs) -> list[LiveBlock]:
        """What the epoch has settled is all that it emits."""
        return inputs.changes


def _panes_of(plan: AggregationPlan, windows: list[int]) -> tuple[int, int]:
    """The panes (first, end) of these windows."""
    return ALL_PANES if plan.window.is_all_time else (windows[0], windows[-1] + plan.window.size_us)
