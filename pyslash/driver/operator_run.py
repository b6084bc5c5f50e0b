"""One run of an operator: from its beginning until the query ends or an agent is lost.

Its steps take and give values: inputs -> update -> store -> log -> commit -> merge -> count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyslash.cluster.folds import FoldFigures, Folds
from pyslash.cluster.snapshots import Snapshots
from pyslash.conf import Conf
from pyslash.driver.backfilling import Backfilling
from pyslash.driver.epoch_record import EpochRecord, Stored
from pyslash.driver.ports import Ports
from pyslash.driver.restart.agent_search import AgentSearch
from pyslash.driver.restart.recovery import RunState
from pyslash.emit.column_merge import ReadOptions
from pyslash.epoch_progress import Timed
from pyslash.operators.base import EpochInputs, Merged, MergeInputs, RunTools, Update
from pyslash.operators.table import operator_of
from pyslash.plan.cut import OperatorCut
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.watermarks import Watermarks
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.execution import SparkBatch
from pyslash.spark.jvm_bridge import TaskRead
from pyslash.spark.update_spec import AgentSpec
from pyslash.state.manifest import Manifest
from pyslash.state.version import panes_of
from pyslash.units import AFTER_ALL_PANES, BEFORE_ALL_PANES, Epoch, Micros


@dataclass(frozen=True)
class EpochFigures:
    """What an epoch has come to, by the time its rows are handed to the sink."""

    blocks: int
    windows: int
    agents: int
    pinned_bytes: int
    spilled_bytes: int
    watermark_us: Micros
    memory: dict[str, dict[str, int]]


@dataclass(frozen=True)
class UpdateFigures:
    """How an epoch's rows came in."""

    ingest: str
    groups: int
    records_by_spark: int
    records_fetched: int
    update_task_ms: float
    bytes_shuffled: dict[str, int] = field(default_factory=dict)
    folded: int = 0
    folded_bytes: int = 0
    folded_into_bytes: int = 0


class OperatorRun:
    """The steps of the epochs of one run."""

    def __init__(
        self, batch: SparkBatch, state: RunState, conf: Conf, secret: bytes, ports: Ports, search: AgentSearch
    ) -> None:
        """`batch`: of the run's first epoch."""
        self.state = state
        self.plan = state.plan
        self._conf, self._session, self._search = conf, batch.session, search
        self._stopped_in: Epoch | None = None  # the epoch whose update was stopped with the query
        session, coordinator, query_id = batch.session, state.coordinator, batch.query_id.bytes
        of_rows, run = self.plan.of_rows, state.manifests.run
        self._ingest = ports.ingest(session, of_rows, conf, query_id, secret, coordinator.group.add_agents)
        self._backfilling: Backfilling | None = None
        self._snapshots: Snapshots | None = None
        if state.durable is not None:
            pace = conf.checkpoint_timeout, conf.snapshot_rate
            snapshots = self._snapshots = Snapshots(coordinator.group, state.durable, self.plan.text, run, *pace)
            self._beside = ports.background_task(
                lambda: batch.is_active and snapshots.step(), "pyslash snapshots", snapshots.warn
            )
        if state.durable is not None and not self.plan.stands_on_others:
            backfills = ports.backfills(batch.checkpoint)
            self._backfilling = Backfilling(backfills, self.plan, coordinator, state.manifests)
        reading = ReadOptions(
            query_id=query_id,
            token=coordinator.read_token,
            transport=conf.transport,
            timeout_seconds=conf.agent_call_timeout,
            agent=AgentSpec.of(session, secret, conf),
        )
        self._operator = operator_of(self.plan, RunTools(session, conf, coordinator, self._ingest, reading))
        folds = self._operator.folds and conf.strategy == "merge"
        most = conf.fold_blocks if folds else 0
        self._folds = Folds(coordinator.group, self.plan.text, run, conf.checkpoint_timeout, most)

    def release(self, epoch: Epoch) -> bool:
        """Let go of what only the epoch before this one needed; False if that has not been logged as done."""
        last, state = self.state.last, self.state
        if last is None or last.epoch >= epoch:
            return False
        state.coordinator.release(self.plan.emission.first_live_pane(last.watermark_us, last.pane))
        state.manifests.purge(epoch)
        if state.durable is not None:
            state.durable.clean()
        return True

    def inputs(self, batch: SparkBatch, epoch: Epoch) -> EpochInputs:
        """An epoch whose rows have yet to be read."""
        last, cut = self.state.last, batch.cut
        watermarks = _watermarks(cut, self.plan.emission.mode, last)
        offsets = batch.offsets(epoch)
        pane = self._operator.pane(epoch, last.pane if last is not None else 0)
        cut.begin(epoch, watermarks.evicted_us, self.plan.input_columns)
        return EpochInputs(batch, epoch, watermarks, offsets, last, pane)

    def update(self, inputs: EpochInputs) -> tuple[Update, UpdateFigures]:
        """Turn the epoch's rows into blocks. If that fails, none is left."""
        coordinator, ingest = self.state.coordinator, self._ingest

        def update() -> tuple[Update, FoldFigures]:
            try:
                taken = self._backfilling.take(inputs) if self._backfilling is not None else []
                update = self._operator.update(replace(inputs, taken=taken) if taken else inputs)
                blocks, folded = self._folds.fold(inputs.epoch, update.blocks)
                return replace(update, blocks=blocks), folded
            except BaseException:
                # The thread of a query that was stopped runs no job any more.
                self._stopped_in = None if inputs.batch.is_active else inputs.epoch
                coordinator.discard(inputs.epoch, list if self._stopped_in is not None else self._unknown_agents)
                raise

        coordinator.room.make_ahead(inputs.epoch)
        published, folded = coordinator.room.make_for(inputs.epoch, update)
        groups = sum(receipt.head.groups for receipt in published.rows)
        by_tasks = {id(receipt): receipt.nanoseconds for receipt in (*published.blocks, *published.rows)}
        spent_ms = round((sum(by_tasks.values()) + ingest.scattering_ns) / 1e6, 3)
        return published, UpdateFigures(
            ingest.path,
            groups,
            ingest.records_by_spark,
            ingest.records_fetched,
            spent_ms,
            ingest.shuffled,
            **vars(folded),
        )

    def store(self, inputs: EpochInputs, update: Update, timed: Timed) -> Stored:
        """Write the epoch's blocks to the checkpoint and to standbys, as far as the query is to survive."""
        coordinator, durable, epoch = self.state.coordinator, self.state.durable, inputs.epoch
        stored = Stored()
        if durable is not None:
            with timed("checkpoint"):
                added = coordinator.store(epoch, update.written, durable)
            first_pane = self.plan.emission.first_live_pane(inputs.watermarks.evicted_us, inputs.pane)
            files = durable.with_epoch(added, first_pane)
            stored = Stored(files, checkpoint_bytes=sum(file.bytes for file in added))
        if self._conf.replicates:
            with timed("replica"):
                standbys, size = coordinator.replicas.send(epoch, update.written, self._conf.transport)
            stored = Stored(stored.files, standbys, stored.checkpoint_bytes, size)
        return stored

    def log(self, inputs: EpochInputs, update: Update, stored: Stored, timed: Timed) -> Manifest:
        """Write the epoch's manifest: from then on its rows are fixed."""
        state = self.state
        record = EpochRecord.of(inputs, update, state.coordinator.agents, stored)
        manifest = record.manifest(self.plan, state.manifests.run, state.coordinator.version, state.durable is not None)
        with timed("commit"):
            state.manifests.create(manifest)
        return manifest

    def tidy(self, manifest: Manifest) -> None:
        """Files that the manifest does not name are of no use any more."""
        state = self.state
        if state.durable is None:
            return
        state.durable.logged(manifest.files)
        if not state.swept:
            previous = state.last.files if state.last is not None else []
            state.durable.sweep({file.name for file in [*manifest.files, *previous]}, state.manifests.run)
            state.swept = True

    def commit(self, manifest: Manifest) -> None:
        """Make the epoch part of the state."""
        self.state.coordinator.commit(manifest)
        self.state.last = manifest
        # Not of an epoch that is repeated: where its sink fails again and again, nobody names the file, nor sweeps it.
        if self._snapshots is not None and self.state.swept and self._snapshots.are_due:
            self._beside.wake()

    def merge(self, batch: SparkBatch, manifest: Manifest) -> tuple[Merged, EpochFigures]:
        """The micro-batch's plan with the operator's rows in its place."""
        coordinator, emission = self.state.coordinator, self.plan.emission
        version = coordinator.version
        changes = version.of_epoch(manifest.epoch)
        emitted_us, watermark_us, pane = manifest.emitted_us, manifest.watermark_us, manifest.pane
        looked_at = version.panes(*emission.looked_at(emitted_us, watermark_us, pane))
        windows = emission.windows(looked_at, panes_of(changes), emitted_us, watermark_us, pane)
        merged = self._operator.merge(batch, MergeInputs(manifest, version, changes, windows))
        return merged, EpochFigures(
            blocks=len(version),
            windows=len(windows),
            agents=len(coordinator.agents),
            pinned_bytes=coordinator.room.used_bytes,
            spilled_bytes=coordinator.room.spilled_bytes,
            memory=coordinator.room.memory,
            # Of an operator that forgets nothing, the one that makes its rows late.
            watermark_us=max(manifest.watermark_us, batch.cut.late_us),
        )

    @property
    def reads(self) -> tuple[TaskRead, ...]:
        """What the tasks of the last update have read, of a join or of topics."""
        return self._ingest.reads

    @property
    def runs_no_python(self) -> bool:
        """Whether the tasks of the last update have run no Python of ours: none at all, or the job's own."""
        return self._ingest.path == "rows"

    def new_counts(self) -> dict[str, int]:
        """What tasks have read and returned since the last call."""
        return self._operator.new_counts()

    def state_rows(self, manifest: Manifest, groups: int, merged_rows: int | None) -> dict[str, int]:
        """Spark's metrics of the operator's state, as of the end of an epoch; the arguments are those of `counts`."""
        # Blocks may keep panes that were dead before.
        emission = self.plan.emission
        dead_from, dead_before = (
            emission.first_live_pane(time, manifest.pane) for time in (manifest.emitted_us, manifest.watermark_us)
        )
        version, late = self.state.coordinator.version, manifest.late_rows
        for block in version.of_epoch(manifest.epoch):
            for pane, count, _ in block.panes:
                late += count * emission.late_windows(pane, manifest.emitted_us)
        # Of what is over little is left, so it is that which is counted.
        held, over = version.size, version.size_within(BEFORE_ALL_PANES, dead_before)
        return {
            "numTotalStateRows": held.groups - over.groups,
            "stateMemory": held.bytes - over.bytes,
            **self._operator.counts(manifest, groups, merged_rows),
            "numRemovedStateRows": version.size_within(dead_from, dead_before).groups,
            "numRowsDroppedByWatermark": late,
        }

    def free(self, resumable: bool) -> None:
        """The query has ended: free its state in the agents, unless a restart has it from nowhere else.

        Raises:
            SlashError: an agent still holds some.
        """
        if self._stopped_in is not None:
            self.state.coordinator.discard(self._stopped_in, self._unknown_agents)
        if not resumable:
            self.state.coordinator.drop()
        elif self.state.durable is not None:
            self.state.coordinator.release(AFTER_ALL_PANES)

    def free_after_failure(self, resumable: bool) -> None:
        """The same of a run whose agents were lost, and that no other one could follow. What a restart has from files
        goes, whatever run holds it by now.

        Raises:
            SlashError: an agent still holds some.
        """
        coordinator = self.state.coordinator
        if resumable and self.state.durable is None:
            return  # it has nothing else
        coordinator.group.add_agents([*self._search.known.values()])
        try:
            coordinator.drop()
        finally:
            coordinator.group.close()

    def _unknown_agents(self) -> list[AgentDescriptor]:
        return self._search.beyond(self._session, self.state.coordinator.agents)

    def forget(self) -> None:
        """The query has ended: have executors drop what they keep."""
        self._operator.forget()

    def close(self) -> None:
        """The run is over; agents keep what they hold."""
        self._ingest.close()
        self._operator.close()
        if self._snapshots is not None:
            self._snapshots.close()
            self._beside.close()
        self.state.coordinator.group.close()
        if self.state.durable is not None:
            self.state.durable.forget_replanned()


def _watermarks(cut: OperatorCut, mode: OutputMode, last: Manifest | None) -> Watermarks:
    """Those of the epoch behind `last`, as Spark knows them before its rows are read."""
    late_us = cut.late_us
    evicted_us = late_us if mode is not OutputMode.COMPLETE else NO_WATERMARK_US
    if last is not None:
        evicted_us = last.watermark_us
    if mode is OutputMode.UPDATE:
        evicted_us = max(late_us, evicted_us)
    return Watermarks(late_us, evicted_us, max(evicted_us, cut.eviction_us))
