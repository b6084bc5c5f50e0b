"""Which rows of an epoch a deduplication within the watermark emits: settled before the epoch's manifest.

    update: the epoch's rows -> blocks of candidates, the first row of each key
    settle: a task for each core, with a range of keys of those blocks and of the state -> blocks of what is emitted

Only the blocks of the second job are the epoch's. Its commit frees the others, which its manifest does not name.
"""

from __future__ import annotations

from dataclasses import replace

from pyslash.cluster.coordinator import Coordinator
from pyslash.conf import Conf
from pyslash.emit.merge import MergeRequest
from pyslash.emit.merging import arrow_schema
from pyslash.ingest.update_job import Ingest
from pyslash.operators.settle import Settle
from pyslash.plan.operators import Aggregation, DeduplicationWithinWatermark
from pyslash.plan.window import NO_WATERMARK_US, TimeWindow, windows_between
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.execution import SparkBatch
from pyslash.spark.job import run_numbered
from pyslash.state.receipt import Receipt
from pyslash.units import ALL_PANES


class Settling:
    """Settles the epochs of one query."""

    def __init__(self, operator: DeduplicationWithinWatermark, conf: Conf) -> None:
        assert operator.candidates is not None
        self._operator = operator
        self._candidates = operator.candidates
        self._conf = conf

    @property
    def candidates(self) -> Aggregation:
        """What the update of an epoch's rows does."""
        return self._candidates

    def settle(
        self,
        execution: SparkBatch,
        ingest: Ingest,
        coordinator: Coordinator,
        receipts: list[Receipt],
        epoch: int,
        evicted_us: int,
        emitted_us: int,
    ) -> list[Receipt]:
        """The receipts of the epoch's state.

        Args:
            execution: the micro-batch's.
            ingest: the query's, which has made the candidates.
            coordinator: of the state before the epoch.
            receipts: of candidates.
            epoch: the batch id.
            evicted_us: the watermark that the epoch before has evicted by.
            emitted_us: that of this epoch's manifest; panes that end by then are not read any more.
        """
        written = [receipt for receipt in receipts if receipt.head.length > 0]
        if not written:
            return []
        # They are to hear of the epoch's commit, which frees the candidates, whatever else they hold.
        coordinator.meet(list({receipt.agent.incarnation: receipt.agent for receipt in written}.values()))
        state = coordinator.live_blocks()
        panes = {pane for block in state for pane, _, _ in block.head.panes}
        live = windows_between(self._operator.window, panes, evicted_us)
        tasks = execution.session.sparkContext.defaultParallelism
        whole = windows_between(TimeWindow.all_time(), {0}, NO_WATERMARK_US)
        new = [(receipt.agent, receipt.raw_head) for receipt in written]
        held = [(block.agent, block.raw) for block in state]
        settle = Settle(
            update=replace(ingest.arrow_update(execution, epoch, NO_WATERMARK_US), plan=self._operator.text),
            candidates=self._request(coordinator, self._candidates, whole, new),
            state=self._request(coordinator, self._operator, live, held) if live else None,
            keys=len(self._operator.keys),
            columns=self._operator.columns_of_candidates,
            time=self._operator.time_at,
            delay_us=self._operator.delay_us,
            evicted_us=evicted_us,
            emitted_us=emitted_us,
            tasks=tasks,
        )
        return [Receipt.parse(receipt) for receipt in run_numbered(execution.session, tasks, settle)]

    def _request(
        self,
        coordinator: Coordinator,
        plan: Aggregation,
        windows: list[int],
        blocks: list[tuple[AgentDescriptor, bytes]],
    ) -> MergeRequest:
        panes = ALL_PANES if plan.window.is_all_time else (windows[0], windows[-1] + plan.window.size_us)
        return MergeRequest(
            plan=plan.text,
            windows=windows,
            changed_in=None,
            panes=panes,
            blocks=blocks,
            query_id=coordinator.query_id,
            token=coordinator.read_token,
            transport=self._conf.transport,
            schema=arrow_schema(plan.result_schema),
            timeout_seconds=self._conf.agent_call_timeout,
        )
