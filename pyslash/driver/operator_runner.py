"""The life of one stateful operator that pyslash executes, from epoch to epoch: its blocks, manifests and merges.

    update -> replica, checkpoint -> manifest -> commit -> merge;  release when the next epoch starts

A failure before the manifest leaves nothing behind: the epoch's rows are read again. A failure after it leaves the
manifest: the replayed epoch merges the same blocks and yields the same rows. `phase` has the rules.
"""

from __future__ import annotations

import logging

from pyslash.conf import Conf
from pyslash.driver.late.late_inputs import LateInputs
from pyslash.driver.late.late_rows import LateRows
from pyslash.driver.operator_run import OperatorRun
from pyslash.driver.phase import Event, Phase, advance
from pyslash.driver.ports import Ports
from pyslash.driver.restart.recovery import Recovery, RunState
from pyslash.driver.restart.replica_watch import ReplicaWatch
from pyslash.epoch_progress import EpochProgress
from pyslash.errors import (
    AgentTimeoutError,
    AgentUnavailableError,
    LateManifestError,
    SlashError,
    StaleIncarnationError,
)
from pyslash.operators.base import EpochInputs, Update
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.operator import OperatorPlan
from pyslash.spark.execution import SparkBatch, tell_times
from pyslash.spark.job import slash_error
from pyslash.state.manifest import Manifest
from pyslash.units import Epoch

logger = logging.getLogger("pyslash")
_OUT_OF_REACH = (AgentTimeoutError, AgentUnavailableError, StaleIncarnationError)
# Before this phase nothing of an epoch counts.
_BEFORE_LOG = frozenset({Phase.BEGUN, Phase.UPDATED, Phase.STORED})


class OperatorRunner:
    """Runs the epochs of one stateful operator of a started query, in one run after the other."""

    def __init__(self, plan: OperatorPlan, conf: Conf, secret: bytes, ports: Ports) -> None:
        self.plan = plan
        self.phase = Phase.EMITTED
        self._conf = conf
        self._secret = secret
        self._ports = ports
        self._recovery = Recovery(plan, conf, secret, ports)
        self._late = LateRows(conf)
        self._inputs = LateInputs()
        self._replicas = ReplicaWatch(conf, self._recovery.agents, ports)
        self._run: OperatorRun | None = None
        self._has_logged = False  # the current epoch, in a run that has failed since
        self._failed: OperatorRun | None = None  # what it has left is there while no other run has begun
        self._manifest: Manifest | None = None  # of the epoch that is under way

    @property
    def state(self) -> RunState | None:
        """What the run that is under way has, if there is one."""
        return self._run.state if self._run is not None else None

    @property
    def has_state(self) -> bool:
        """Whether an epoch has left state."""
        return self._run is not None and self._run.state.last is not None

    @property
    def has_logged(self) -> bool:
        """Whether the manifest of the current epoch has been written."""
        return self._has_logged or self.phase not in _BEFORE_LOG

    @property
    def runs_no_python(self) -> bool:
        """Whether the tasks of the last update have run no Python of ours: none at all, or the job's own."""
        return self._run is not None and self._run.runs_no_python

    def begin(self) -> None:
        """An epoch begins."""
        self._to(Event.BEGAN)
        self._has_logged = False

    def can_begin_again(self, error: Exception) -> bool:
        """Whether the epoch that failed with this error may succeed as a new run, from the stored state."""
        if not self._conf.recovers:
            return False
        if isinstance(error, LateManifestError):
            return True
        by_tasks = error if isinstance(error, SlashError) else slash_error(error)
        if isinstance(error.__cause__, _OUT_OF_REACH) or isinstance(by_tasks, _OUT_OF_REACH):
            return True  # even if that agent answers by now: what it has done of the call is not known
        if self._run is not None:
            return bool(self._run.state.coordinator.group.lost())
        return self._recovery.may_succeed_after(error)

    def begin_again(self) -> None:
        """Forget the run that has failed."""
        with self._replicas.lock:
            self._has_logged = self.has_logged
            self._to(Event.AGENT_LOST)
            if self._run is not None:
                self._recovery.agents.remember(self._run.state.coordinator.agents)
                self._failed = self._run
            self._close()

    def was_logged(self, execution: SparkBatch, epoch: Epoch) -> bool:
        """Whether a run before has logged this very batch."""
        return self._recovery.was_logged(execution, epoch)

    def abandon_to_spark(self, execution: SparkBatch, epoch: Epoch) -> None:
        """Remove what a failed attempt left, so that the checkpoint has no state of ours beside Spark's.

        Raises:
            CheckpointError: a manifest may be in the checkpoint, and cannot be deleted.
        """
        self._recovery.abandon_to_spark(execution, epoch)

    def merged(self, execution: SparkBatch, epoch: Epoch, progress: EpochProgress) -> JavaObject:
        """The micro-batch's plan with the operator's rows in its place, once the operator's epoch is committed."""
        with self._replicas.lock:
            run = self._run or self._begin(execution, epoch, progress)
            if run.release(epoch):
                group = run.state.coordinator.group
                group.add_agents(self._recovery.agents.standby(execution.session, group.agents))
        self._replicas.look(execution, run.state)
        manifest = run.state.manifests.read(epoch, self.plan.identity)
        progress.replayed = manifest is not None
        if manifest is not None and self._conf.recovers and run.state.as_of < epoch:
            raise LateManifestError(f"epoch {epoch} was written by run {manifest.run}, which this one has replaced")
        updated = self._update(run, execution, epoch, progress) if manifest is None else None
        with self._replicas.lock:  # up to the commit: a replica that is sent in between would lack the epoch
            if manifest is None:
                assert updated is not None
                manifest = self._log(run, *updated, progress)
            else:
                self._to(Event.REPLAYED)
                tell_times(execution.cut, manifest.times)
            with progress.timed("commit"):
                run.commit(manifest)
                self._to(Event.COMMITTED)
                self._manifest = manifest
        self._replicas.look(execution, run.state)
        progress.count_rows(manifest.rows, manifest.late_rows)
        progress.take(self._inputs.figures(epoch))
        if self._late.are_kept:
            with progress.timed("late"):
                self._late.tidy(execution, epoch, progress.operator)
                if manifest.late_rows:
                    self._late.keep(execution, epoch, progress.operator)
        with progress.timed("merge"):
            merged, figures = run.merge(execution, manifest)
        progress.take(figures)
        progress.take(merged.figures)
        return merged.plan

    def emitted(self, execution: SparkBatch, progress: EpochProgress) -> None:
        """The sink has its rows: tell Spark what the epoch did."""
        assert self._run is not None
        assert self._manifest is not None
        self._to(Event.EMITTED)
        progress.count_tasks(self._run.new_counts())
        merged_rows = None if progress.replayed and not progress.merge_task_ms else progress.merged_rows
        execution.cut.count(
            **self._run.state_rows(self._manifest, progress.groups, merged_rows),
            allUpdatesTimeMs=round(progress.update_task_ms),
            allRemovalsTimeMs=round(progress.merge_task_ms),
            commitTimeMs=round(progress.commit_ms + progress.checkpoint_ms + progress.replica_ms),
        )

    def end(self, resumable: bool) -> None:
        """The query has ended: free its state in the agents, unless a restart needs it and has it from nowhere else.

        Args:
            resumable: it has a checkpoint, so it may be started again.
        """
        with self._replicas.lock:  # replicas that are still on their way would come to agents that have let go of all
            try:
                if self._run is not None:
                    self._run.free(resumable)
                elif self._failed is not None:
                    self._failed.free_after_failure(resumable)
            except SlashError as error:
                logger.warning("an agent still holds state of a query that has ended: %s", error)
            for one in (self._run, self._failed):
                if one is not None:
                    one.forget()
            self._failed = None
            self._close()

    def _to(self, event: Event) -> None:
        self.phase = advance(self.phase, event)

    def _close(self) -> None:
        self._replicas.close()
        if self._run is not None:
            self._run.close()
            self._run = None

    def _begin(self, execution: SparkBatch, epoch: Epoch, progress: EpochProgress) -> OperatorRun:
        state, brought_back = self._recovery.begin(execution, epoch, progress.timed)
        progress.bring_back(brought_back)
        self.plan = state.plan
        self._run = OperatorRun(execution, state, self._conf, self._secret, self._ports, self._recovery.agents)
        self._failed = None
        return self._run

    def _update(
        self, run: OperatorRun, execution: SparkBatch, epoch: Epoch, progress: EpochProgress
    ) -> tuple[EpochInputs, Update]:
        inputs = run.inputs(execution, epoch)
        with progress.timed("update"):
            update, figures = run.update(inputs)
        self._to(Event.UPDATED)
        progress.take(figures)
        return inputs, update

    def _log(self, run: OperatorRun, inputs: EpochInputs, update: Update, progress: EpochProgress) -> Manifest:
        stored = run.store(inputs, update, progress.timed)
        progress.checkpoint_bytes = stored.checkpoint_bytes
        progress.replica_bytes += stored.replica_bytes
        if self._conf.replicates:
            self._replicas.warn_without(stored.standbys)
        self._to(Event.STORED)
        manifest = run.log(inputs, update, stored, progress.timed)
        self._inputs.take(inputs.epoch, run.reads)
        run.tidy(manifest)
        self._to(Event.LOGGED)
        return manifest
