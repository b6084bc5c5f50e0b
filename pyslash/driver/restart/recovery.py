"""How a run of a query begins: its number, what is known about the state, and where the state comes back from."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import uuid4

from pyspark.sql import SparkSession

from pyslash.cluster.agent_group import AgentGroup
from pyslash.cluster.coordinator import Coordinator, told_of
from pyslash.cluster.standbys import Repair
from pyslash.conf import Conf
from pyslash.driver.ports import Ports
from pyslash.driver.restart.agent_search import AgentSearch
from pyslash.driver.restart.rewinding import check_files, holders_of, rewound, withdraw, written_of
from pyslash.epoch_progress import BroughtBack, Timed
from pyslash.errors import AgentStartError, PlanMismatchError, SlashError, StateLostError
from pyslash.migrate.adoption import adopt
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.reasons import Uncovered
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.execution import SparkBatch
from pyslash.state.durable import DurableState
from pyslash.state.files.directory import BlockDirectory
from pyslash.state.manifest import BLOCKS, MANIFESTS, RUNS, Manifest, ManifestLog
from pyslash.state.plan_change import evolution_of, warn_of
from pyslash.units import BEFORE_ALL_RUNS, NO_EPOCH, Epoch, Run

logger = logging.getLogger("pyslash")


@dataclass
class RunState:
    """What lives from epoch to epoch, made when the first batch tells the query's id and checkpoint."""

    plan: OperatorPlan  # over the columns that the state has
    coordinator: Coordinator
    manifests: ManifestLog
    last: Manifest | None
    durable: DurableState | None
    as_of: Epoch  # the one whose manifest told what to bring back; NO_EPOCH: there was none
    swept: bool = False  # what earlier runs have left without a manifest is gone


class Recovery:
    """Begins runs of one query, as often as it takes."""

    def __init__(self, plan: OperatorPlan, conf: Conf, secret: bytes, ports: Ports) -> None:
        self._plan = plan
        self._conf = conf
        self._secret = secret
        self._ports = ports
        self._driver = uuid4().hex
        self._run_held = BEFORE_ALL_RUNS
        self._durable: DurableState | None = None  # of the run that is begun
        self._memory_failed = False  # when the state was last to be put together from it
        self.agents = AgentSearch(conf, secret, ports)

    def may_succeed_after(self, error: Exception) -> bool:
        """Whether to try again after an attempt has failed to bring the state back."""
        # A job has failed, and Spark knows why, or an agent has to start, or memory has failed, and there are files.
        # What is wrong with a file or with the plan, however, is wrong at the next attempt too.
        return self._memory_failed or isinstance(error, AgentStartError) or not isinstance(error, SlashError)

    def begin(self, execution: SparkBatch, epoch: Epoch, timed: Timed) -> tuple[RunState, BroughtBack]:
        """Begin a run with this epoch, and bring back the state as of the one before it.

        Raises:
            StateLostError, CheckpointError, CorruptBlockError, …: the state cannot be recovered.
            PlanMismatchError: it is of another query.
            RewoundCheckpointError: it is of other batches than Spark's.
            Uncovered: it is Spark's own.
            FencedError: another driver runs the query.
        """
        try:
            return self._begun(execution, epoch, timed)
        except BaseException:
            if self._durable is not None:
                self._durable.forget_replanned()
            raise

    def _begun(self, execution: SparkBatch, epoch: Epoch, timed: Timed) -> tuple[RunState, BroughtBack]:
        session: SparkSession = execution.session
        manifests = self._manifests(execution)
        run = self._run_held = manifests.take_over(self._run_held)
        written, forgotten = written_of(execution, manifests, epoch, self._conf)
        last = self._last_manifest(execution, manifests, epoch)
        evolution = evolution_of(last, self._plan.identity, self._conf.plan_change, epoch)
        operator = self._plan.evolved(evolution)
        query_id, timeout = execution.query_id.bytes, self._conf.agent_call_timeout
        coordinator = Coordinator(
            AgentGroup(query_id, self._secret, timeout, self._ports.client, self._ports.pool),
            query_id,
            operator.text,
            self._secret,
            run,
            self._conf.checkpoint_timeout,
            (self._conf.spill_directory, self._conf.spill_bytes),
            operator.emission.keeps_changes,
        )
        current = self._current(execution, manifests, written, last, operator)
        newest = current or last
        # What agents have committed of epochs that are computed again would have them sweep the new blocks as late:
        # those that manifests name, and those that a run has found which only replayed one.
        withdrawn = written if current is None else None
        holders = dict.fromkeys(holders_of(withdrawn, manifests, forgotten))
        if newest is None or withdrawn is not None or forgotten:
            holders |= dict.fromkeys(told_of(query_id))
        withdraw(manifests, forgotten)
        is_rewritten = current is None and not evolution.keeps_blocks
        if last is not None and is_rewritten:
            warn_of(evolution, last.epoch)
        durable = self._durable_state(execution, newest, operator if is_rewritten else None)
        if holders:
            coordinator.begin([*holders])
        with timed("agents"):
            agents = self.agents.for_run(session, coordinator.group, newest, durable)
        figures = BroughtBack()
        if newest is not None:
            before = manifests.look(Epoch(newest.epoch - 1))
            emitted_us = newest.watermark_us if current is None else newest.emitted_us
            first_pane = operator.emission.first_live_pane(emitted_us, newest.pane)
            with timed("restore"):
                found = newest, before, manifests.run_before
                figures = self._bring_back(found, first_pane, durable, coordinator, agents, is_rewritten)
        coordinator.group.add_agents(agents)
        coordinator.version.name = _name_of(last, operator)
        self.agents.remember(coordinator.agents)
        if self._conf.replicates and coordinator.replicas.missing():
            # Not with the epoch's own blocks: until then, one more loss would be the end of the state.
            with timed("replica"):
                figures = replace(figures, replica_bytes=coordinator.replicas.resync(self._conf.transport))
        as_of = newest.epoch if newest is not None else NO_EPOCH
        return RunState(operator, coordinator, manifests, last, durable, as_of), figures

    def was_logged(self, execution: SparkBatch, epoch: Epoch) -> bool:
        """Whether another run has logged this very batch: the state is pyslash's, and the sink may have its rows."""
        try:
            written, _ = written_of(execution, self._manifests(execution), epoch, self._conf)
        except (OSError, SlashError):
            return False
        return written is not None and written.run != self._run_held

    def _manifests(self, execution: SparkBatch) -> ManifestLog:
        files, runs = (self._ports.files(execution.session, execution.checkpoint, at) for at in (MANIFESTS, RUNS))
        return ManifestLog(files, runs, self._driver, self._ports.next_run)

    def abandon_to_spark(self, execution: SparkBatch, epoch: Epoch) -> None:
        """Spark keeps the state from this epoch on: no manifest of it may tell a restarted query that pyslash does.

        There may be one although the epoch has failed: of an earlier driver, or of a write that reported an error.

        Raises:
            CheckpointError: it cannot be deleted.
            FencedError: another driver runs the query, whose manifest it may be.
            RewoundCheckpointError: it is of other batches than Spark's, and the sink may have their rows.
        """
        try:
            manifests = self._manifests(execution)
        except OSError:
            return  # nothing can be written there, and nothing was
        manifests.check_held(self._run_held)
        with suppress(StateLostError):  # one that cannot be read was torn before the sink had a row of it
            _, forgotten = written_of(execution, manifests, epoch, self._conf)
            withdraw(manifests, forgotten)
        manifests.withdraw(epoch)

    def _durable_state(
        self, execution: SparkBatch, newest: Manifest | None, operator: OperatorPlan | None
    ) -> DurableState | None:
        """The durable state in the checkpoint, rewritten for this operator if there is one."""
        self._durable = None
        if not self._conf.keeps_files:
            return None
        directory = BlockDirectory(f"{execution.checkpoint}/{BLOCKS}")
        files = newest.files if newest is not None else []
        durable = self._durable = DurableState(directory, files, self._ports.seconds)
        if newest is not None and operator is not None:
            durable.replan(newest.identity, operator.identity, newest.epoch, self._run_held)
        return durable

    def _bring_back(
        self,
        found: tuple[Manifest, Manifest | None, Run],
        first_pane: int,
        durable: DurableState | None,
        coordinator: Coordinator,
        agents: list[AgentDescriptor],
        is_rewritten: bool,
    ) -> BroughtBack:
        """Bring back the state as of the newest manifest, which was `found` with the one before it and the newest run
        that the checkpoint knew: in place, from standbys' memory, or from the checkpoint, and only from there if it was
        rewritten.
        """
        newest, before, run_before = found
        if is_rewritten and durable is None:
            raise PlanMismatchError(
                f"the aggregates of the query have changed, and spark.slash.durability={self._conf.durability} keeps "
                "its state only in memory, as it was. Run the query as it was, or give it a new checkpointLocation. "
                "With checkpoint or both, a query may change."
            )
        if durable is not None and not newest.in_checkpoint:
            raise StateLostError(
                f"epoch {newest.epoch} was written with another spark.slash.durability: its state is not in the "
                "checkpoint. Set the value that it was written with, or give the query a new checkpointLocation."
            )
        if not self._conf.recovers and (newest.in_checkpoint or newest.standbys):
            raise StateLostError(
                f"epoch {newest.epoch} was written with another spark.slash.durability than off, so agents may have "
                "dropped its state. Set the value that it was written with, or give the query a new "
                "checkpointLocation."
            )
        obstacle = f"epoch {newest.epoch} has no standbys"
        # Since a manifest without standbys, replicas may have been sent to an agent that this driver has met.
        may_be_whole = newest.standbys or durable is None or self.agents.known
        in_memory = self._conf.replicates or not self._conf.recovers
        from_memory = in_memory and may_be_whole and not is_rewritten
        if from_memory and not (self._memory_failed and durable is not None):
            # Should an agent refuse what it ought to hold, the next attempt has the files.
            self._memory_failed = True
            others = [*self.agents.known.values(), *agents]
            repair = coordinator.repair(newest, before, first_pane, run_before, others)
            self._memory_failed = False
            if isinstance(repair, Repair):
                if durable is not None:
                    durable.assign({file.name: repair.moved.get(file.holder, file.holder) for file in durable.files})
                logger.info("query continues after epoch %d with %s", newest.epoch, repair)
                return BroughtBack(promotions=len(repair.promotions))
            obstacle = repair
        if durable is None:
            raise StateLostError(
                f"the state as of epoch {newest.epoch} cannot be recovered from memory: {obstacle}. If a process that "
                "does not answer only stands still, start the query again once it goes on. Otherwise the open windows' "
                "rows in that share are gone: start the query with a new checkpointLocation, which reads its source "
                "again, and with spark.slash.durability=both, which survives such a loss."
            )
        if durable.files and self._conf.replicates and not is_rewritten:
            logger.warning("no standby can take over, so the whole state is read from the checkpoint: %s", obstacle)
        coordinator.restore(newest.epoch, durable, agents)
        self._memory_failed = False
        logger.info("query continues after epoch %d: %d files restored", newest.epoch, len(durable.files))
        return BroughtBack(restored_files=len(durable.files))

    def _current(
        self,
        execution: SparkBatch,
        manifests: ManifestLog,
        written: Manifest | None,
        last: Manifest | None,
        operator: OperatorPlan,
    ) -> Manifest | None:
        """What an earlier attempt has `written` of this very epoch, where its rows are still the same.

        Where they are not, as after a repair of the query, Spark computes the batch again, and so do we.
        """
        if written is None:
            return None
        epoch = written.epoch
        timestamp_ms = execution.offsets(epoch).timestamp_ms
        same = written.input == operator.fingerprint and written.timestamp_ms == timestamp_ms
        if same and written.identity == operator.identity:
            return written
        if not self._conf.keeps_files and epoch > 0:
            raise StateLostError(
                f"the query has changed since it wrote the state of the unfinished batch {epoch}, and the state before "
                f"that batch is gone: spark.slash.durability={self._conf.durability}. Finish the batch with the query "
                "as it was, or give it a new checkpointLocation."
            )
        if last is not None:
            check_files(execution, last)
        logger.warning("the query has changed, so the unfinished batch %d is computed again", epoch)
        manifests.withdraw(epoch)
        return None

    def _last_manifest(self, execution: SparkBatch, manifests: ManifestLog, epoch: Epoch) -> Manifest | None:
        """The manifest of the epoch before this one, where the query has run before."""
        done = [known for known in manifests.epochs() if known < epoch]
        if not done:
            if epoch > 0 and self._conf.adopt and self._conf.keeps_files:
                return adopt(self._plan, execution, manifests, epoch)
            if epoch > 0:
                raise Uncovered(
                    f"its checkpoint {execution.checkpoint} holds state of plain Spark, which continues with it"
                )
            return None
        last = manifests.look(done[-1])
        if last is None or last.epoch != epoch - 1:
            raise StateLostError(
                f"the last manifest is of epoch {done[-1]}, but Spark continues with {epoch}: a query without pyslash "
                "has used the checkpoint in between. Give the query a new checkpointLocation."
            )
        if execution.has_offsets(last.epoch) and execution.offsets(last.epoch).sources != last.offsets:
            raise rewound(f"batch {last.epoch} has other offsets than when pyslash wrote its state")
        return last


def _name_of(last: Manifest | None, operator: OperatorPlan) -> str:
    """The version before the epoch that begins a run."""
    if last is None:
        return ""
    if last.identity == operator.identity:
        return last.version
    # The same rows in other states: what executors have kept of the old ones is of no use.
    return hashlib.sha256(f"{last.version} {operator.text}".encode()).hexdigest()
