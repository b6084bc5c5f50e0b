"""The life of an epoch: what happens in `foreachBatch` of a query that pyslash has taken over.

    update -> replica, checkpoint -> manifest -> commit -> merge -> sink;  release when the next epoch starts

A failure before the manifest leaves nothing behind: the epoch's rows are read again. A failure after it leaves the
manifest: the replayed epoch merges the same blocks and yields the same rows. When an agent is lost, the epoch begins
again by itself, as another driver would: as a new run, from standbys' memory or the checkpoint. `phase` has the rules.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from pyslash.agent.descriptor import AgentDescriptor
from pyslash.agent.share import EVERY_PANE
from pyslash.block_head import head_crc
from pyslash.checkpoint.directory import BlockDirectory, BlockFile
from pyslash.conf import Conf
from pyslash.errors import (
    AgentTimeoutError,
    AgentUnavailableError,
    FencedError,
    LateManifestError,
    PlanMismatchError,
    SlashError,
    StaleIncarnationError,
    StateLostError,
)
from pyslash.plan import AggregationPlan
from pyslash.plan.identity import differences
from pyslash.streaming.checkpoint_files import checkpoint_files
from pyslash.streaming.coordinator import Coordinator, LiveBlock
from pyslash.streaming.durable import DurableState
from pyslash.streaming.execution import BatchExecution
from pyslash.streaming.ingest import Ingest
from pyslash.streaming.manifest import BLOCKS, MANIFESTS, RUNS, Manifest, ManifestLog
from pyslash.streaming.merging import Merging
from pyslash.streaming.phase import Event, Phase, advance
from pyslash.streaming.progress import EpochProgress, ProgressLog
from pyslash.streaming.repartition import ingest_of
from pyslash.streaming.sinks import Sink
from pyslash.streaming.standbys import Repair
from pyslash.streaming.windows import closed_windows, first_live_pane
from pyslash.tasks.find_agents import find_agents
from pyslash.tasks.receipt import Receipt

logger = logging.getLogger("pyslash")
_MOST_RECOVERIES = 3
_OUT_OF_REACH = (AgentTimeoutError, AgentUnavailableError, StaleIncarnationError)


@dataclass
class _State:
    """What lives from epoch to epoch, made when the first batch tells the query's id and checkpoint."""

    coordinator: Coordinator
    manifests: ManifestLog
    last: Manifest | None
    durable: DurableState | None
    begun: int  # the first epoch of this run
    swept: bool = False  # what earlier runs have left without a manifest is gone


class EpochRunner:
    """The `foreachBatch` function of one started query."""

    def __init__(self, plan: AggregationPlan, sink: Sink, conf: Conf, secret: bytes) -> None:
        self.plan = plan
        self.progress: ProgressLog | None = None
        self._sink = sink
        self._conf = conf
        self._secret = secret
        self._ingest: Ingest | None = None
        self._merging: Merging | None = None
        self._state: _State | None = None
        self._driver = uuid4().hex
        self._run_held = 0
        self.phase = Phase.EMITTED
        self._memory_failed = False  # when the state was last to be put together from it
        self._has_standby = True  # until it turns out otherwise, which is said once

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run one epoch; again, from what is kept of the state, while agents are lost.

        Raises:
            SlashError: typed, with what to do; Spark ends the query with it, and may restart it.
        """
        execution = BatchExecution(batch, self.plan.session)
        progress = EpochProgress(epoch)
        self.phase = Phase.BEGUN
        while True:
            try:
                return self._run(execution, batch, epoch, progress)
            except (FencedError, PlanMismatchError):
                raise
            except Exception as error:
                if progress.recoveries == _MOST_RECOVERIES or not self._can_begin_again(error):
                    raise
                logger.warning("epoch %d begins again, %s: %s", epoch, self.phase.value, error)
                self.phase = advance(self.phase, Event.AGENT_LOST)
                self._close()
                progress.recoveries += 1

    def _can_begin_again(self, error: Exception) -> bool:
        if not self._conf.recovers:
            return False
        if isinstance(error, LateManifestError):
            return True
        if isinstance(error.__cause__, _OUT_OF_REACH):
            return True  # even if that agent answers by now: what it has done of the call is not known
        if self._state is not None:
            return bool(self._state.coordinator.lost_agents())
        # While the state was brought back a job has failed, and Spark knows why, or memory has, and there are files.
        # What is wrong with a file or with the plan, however, is wrong at the next attempt too.
        return self._memory_failed or not isinstance(error, SlashError)

    def _run(self, execution: BatchExecution, batch: DataFrame, epoch: int, progress: EpochProgress) -> None:
        state = self._state or self._begin(execution, epoch, progress)
        window = self.plan.window
        if state.last is not None and state.last.epoch < epoch:
            # Spark has logged the last epoch as done: nobody will ask for its windows again.
            state.coordinator.release(first_live_pane(window, state.last.watermark_us))
            state.manifests.purge(epoch)
            if state.durable is not None:
                state.durable.clean()
        manifest = state.manifests.read(epoch, self.plan.identity)
        progress.replayed = manifest is not None
        if manifest is not None and self._conf.recovers and state.begun < epoch:
            raise LateManifestError(f"epoch {epoch} was written by run {manifest.run}, which this one has replaced")
        if manifest is None:
            manifest = self._update(execution, batch, epoch, state, progress)
        else:
            self.phase = advance(self.phase, Event.REPLAYED)
        with progress.timed("commit"):
            state.coordinator.commit(manifest)
        self.phase = advance(self.phase, Event.COMMITTED)
        state.last = manifest
        self._emit(batch, manifest, state, progress)
        self.phase = advance(self.phase, Event.EMITTED)

    def end(self, resumable: bool) -> None:
        """The query has ended: free what agents hold of it, unless they alone have what a restart needs.

        Args:
            resumable: it has a checkpoint of its own, so that it may be started again.
        """
        if self._state is None:
            return
        try:
            if not resumable:
                self._state.coordinator.drop()
            elif self._state.durable is not None:
                self._state.coordinator.release(EVERY_PANE)
        except SlashError as error:
            logger.warning("an agent keeps what it holds of a query that has ended: %s", error)
        self._close()

    def _close(self) -> None:
        if self._state is not None:
            self._state.coordinator.close()
            self._state = None

    def _begin(self, execution: BatchExecution, epoch: int, progress: EpochProgress) -> _State:
        session: SparkSession = execution.session
        query_id = execution.query_id
        self.progress = self.progress or ProgressLog(str(query_id), self._conf.progress_retained)
        manifests = ManifestLog(
            checkpoint_files(session, execution.checkpoint, MANIFESTS),
            checkpoint_files(session, execution.checkpoint, RUNS),
            self._driver,
            self._conf.plan_change,
        )
        run = self._run_held = manifests.take_over(self._run_held) if self._conf.recovers else 0
        coordinator = Coordinator(
            query_id.bytes,
            self.plan.text,
            self._secret,
            self._conf.agent_call_timeout,
            run,
            self._conf.checkpoint_timeout,
            (self._conf.spill_directory, self._conf.spill_bytes),
        )
        identity = self.plan.identity
        last, current = self._last_manifest(manifests, epoch), manifests.read(epoch, identity)
        durable = self._durable_state(execution, current, last)
        agents = []
        if self._conf.replicates or (durable is not None and durable.files):
            conf = self._conf
            agents = find_agents(session, self._secret, conf.arena_bytes, conf.agent_start_timeout)
        newest = current or last
        if newest is not None:
            before = manifests.read(newest.epoch - 1, identity)
            emitted_us = newest.watermark_us if current is None else newest.emitted_us
            first_pane = first_live_pane(self.plan.window, emitted_us)
            with progress.timed("restore"):
                self._bring_back(newest, before, first_pane, durable, coordinator, agents, progress)
        coordinator.meet(agents)
        self._ingest = ingest_of(session, self.plan, self._conf, query_id.bytes, self._secret, run, coordinator.meet)
        self._merging = Merging(self.plan, self._conf, coordinator)
        self._state = _State(coordinator, manifests, last, durable, epoch)
        return self._state

    def _durable_state(
        self, execution: BatchExecution, current: Manifest | None, last: Manifest | None
    ) -> DurableState | None:
        """What the checkpoint holds, without what no manifest names."""
        if not self._conf.keeps_files:
            return None
        newest = current or last
        directory = BlockDirectory(f"{execution.checkpoint}/{BLOCKS}")
        durable = DurableState(directory, newest.files if newest is not None else [])
        if newest is not None and self._conf.plan_change == "aggregates" and newest.identity != self.plan.identity:
            logger.warning("the query has changed: %s", "; ".join(differences(newest.identity, self.plan.identity)))
            durable.replan(newest.identity, self.plan.identity, newest.epoch, self._run_held)
        return durable

    def _bring_back(
        self,
        newest: Manifest,
        before: Manifest | None,
        first_pane: int,
        durable: DurableState | None,
        coordinator: Coordinator,
        agents: list[AgentDescriptor],
        progress: EpochProgress,
    ) -> None:
        """The state as of the newest manifest: where it lies, or out of standbys' memory, or out of the checkpoint."""
        if not self._conf.recovers:
            coordinator.reconnect(newest.agents)
            return
        if durable is not None and not newest.in_checkpoint:
            raise StateLostError(
                f"epoch {newest.epoch} was written with another spark.slash.durability: its state is in no checkpoint. "
                "Set what it was before, or give the query a new checkpointLocation."
            )
        obstacle = f"epoch {newest.epoch} has no standbys"
        from_memory = self._conf.replicates and newest.standbys and newest.identity == self.plan.identity
        if from_memory and not (self._memory_failed and durable is not None):
            # Should an agent refuse what it ought to hold, the next attempt has the files.
            self._memory_failed = True
            repair = coordinator.repair(newest, before, first_pane)
            self._memory_failed = False
            if isinstance(repair, Repair):
                if durable is not None:
                    durable.assign({file.name: repair.moved.get(file.holder, file.holder) for file in durable.files})
                progress.promotions = len(repair.promotions)
                logger.info("query goes on after epoch %d with %s", newest.epoch, repair)
                return
            obstacle = repair
        if durable is None:
            raise StateLostError(
                f"the state as of epoch {newest.epoch} is not to be had from memory: {obstacle}. Give the query a new "
                "checkpointLocation, and a spark.slash.durability that outlives such a loss."
            )
        if durable.files and self._conf.replicates:
            logger.warning("the whole state is read from the checkpoint: %s", obstacle)
        coordinator.restore(newest.epoch, durable, agents)
        self._memory_failed = False
        progress.restored_files = len(durable.files)
        logger.info("query goes on after epoch %d: %d files restored", newest.epoch, len(durable.files))

    def _last_manifest(self, manifests: ManifestLog, epoch: int) -> Manifest | None:
        """The manifest of the epoch before this one, where the query has run before."""
        done = [known for known in manifests.epochs() if known < epoch]
        if not done:
            if epoch > 0:
                raise StateLostError(
                    f"the checkpoint has {epoch} finished batches but no manifest of pyslash: it was written by plain "
                    "Spark. Set spark.slash.mode=off for this query, or give it a new checkpointLocation."
                )
            return None
        last = manifests.read(done[-1], self.plan.identity)
        if last is None or last.epoch != epoch - 1:
            raise StateLostError(
                f"the last manifest is of epoch {done[-1]}, but Spark continues with {epoch}: the checkpoint has been "
                "used without pyslash in between. Give the query a new checkpointLocation."
            )
        return last

    def _update(
        self, execution: BatchExecution, batch: DataFrame, epoch: int, state: _State, progress: EpochProgress
    ) -> Manifest:
        assert self._ingest is not None
        emitted_us = max(execution.watermark_us, state.last.watermark_us if state.last else 0)
        coordinator, ingest = state.coordinator, self._ingest

        def update() -> list[Receipt]:
            with coordinator.discard_on_failure(epoch):
                return ingest.update(execution, batch, epoch, emitted_us)

        with progress.timed("update"):
            coordinator.make_room_ahead(epoch)
            receipts = coordinator.with_room(epoch, update)
        self.phase = advance(self.phase, Event.UPDATED)
        watermark_us = execution.next_watermark_us(emitted_us)
        progress.ingest, progress.bytes_shuffled = ingest.path, ingest.shuffled
        written = [receipt for receipt in receipts if receipt.head.length > 0]
        progress.groups = sum(receipt.head.groups for receipt in written)
        agents = {agent.incarnation: agent for agent in coordinator.agents}
        agents.update({receipt.agent.incarnation: receipt.agent for receipt in written})
        files: list[BlockFile] = []
        if state.durable is not None:
            with progress.timed("checkpoint"):
                added = coordinator.store(epoch, written, state.durable)
            progress.checkpoint_bytes = sum(file.bytes for file in added)
            files = state.durable.with_epoch(added, first_live_pane(self.plan.window, emitted_us))
        standbys: dict[str, str] = {}
        if self._conf.replicates:
            with progress.timed("replica"):
                standbys, progress.replica_bytes = coordinator.with_room(
                    epoch, lambda: coordinator.replicate(epoch, written, self._conf.transport)
                )
            self._warn_without_standby(standbys)
        self.phase = advance(self.phase, Event.STORED)
        manifest = Manifest(
            epoch=epoch,
            run=state.manifests.run,
            plan=self.plan.text,
            columns=list(self.plan.identity.columns),
            emitted_us=emitted_us,
            watermark_us=watermark_us,
            rows=sum(receipt.head.rows for receipt in receipts),
            late_rows=sum(receipt.head.late_rows for receipt in receipts),
            blocks=[
                (receipt.agent.incarnation, receipt.head.arena_offset, head_crc(receipt.raw_head))
                for receipt in written
            ],
            agents=list(agents.values()),
            files=files,
            in_checkpoint=state.durable is not None,
            standbys=standbys,
        )
        with progress.timed("commit"):
            state.manifests.create(manifest)
        if state.durable is not None:
            state.durable.logged(files)
            if not state.swept:
                previous = state.last.files if state.last is not None else []
                state.durable.sweep({file.name for file in [*files, *previous]}, state.manifests.run)
                state.swept = True
        self.phase = advance(self.phase, Event.LOGGED)
        return manifest

    def _warn_without_standby(self, standbys: dict[str, str]) -> None:
        if not standbys and self._has_standby:
            logger.warning(
                "spark.slash.durability=%s, spark.slash.replication=%d: there is one agent only, so nothing is "
                "replicated until another executor has one",
                self._conf.durability,
                self._conf.replication,
            )
        self._has_standby = bool(standbys)

    def _emit(self, batch: DataFrame, manifest: Manifest, state: _State, progress: EpochProgress) -> None:
        assert self._merging is not None
        assert self.progress is not None
        blocks = state.coordinator.live_blocks()
        windows = closed_windows(self.plan.window, _panes(blocks), manifest.emitted_us, manifest.watermark_us)
        progress.count_rows(manifest.rows, manifest.late_rows)
        progress.blocks, progress.windows = len(blocks), len(windows)
        progress.agents = len(state.coordinator.agents)
        progress.pinned_bytes, progress.spilled_bytes = state.coordinator.used_bytes, state.coordinator.spilled_bytes
        progress.watermark_us = manifest.watermark_us
        with progress.timed("merge"):
            merged = self._merging.merge(batch.sparkSession, blocks, windows, progress)
            finished = self.plan.finish(batch.sparkSession._jsparkSession, merged._jdf)
        with progress.timed("sink"):
            self._sink.write(DataFrame(finished, batch.sparkSession), manifest.epoch)
        self._merging.collect_counts(progress)
        self.progress.add(progress)


def _panes(blocks: list[LiveBlock]) -> set[int]:
    return {pane for block in blocks for pane, _, _ in block.head.panes}
