"""The life of an epoch: what happens in a micro-batch of a query whose stateful operators pyslash executes.

    operator -> operator above it -> ... -> sink

The query is the job's own, with Spark's stateful operators in the plan of each micro-batch. Spark provides the
watermarks for late rows and for eviction. The rows that an operator would emit are merged from blocks
(`operator_runner`), and take its place in the plan. The operator above it reads those rows as its input; the rest of
the plan stands on top of the last operator.

When an agent is lost, the epoch starts over by itself, as another driver would start it: as a new run, from the memory
of standbys or from the checkpoint.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from pyslash.conf import Conf
from pyslash.driver.backlog import Backlog, BacklogFigures
from pyslash.driver.held_watermark import HeldWatermark
from pyslash.driver.operator_runner import OperatorRunner
from pyslash.driver.ports import Ports
from pyslash.driver.sinks import Sink
from pyslash.driver.watch import QueryWatch
from pyslash.epoch_progress import EpochProgress, ProgressLog
from pyslash.errors import FencedError, PlanMismatchError, RewoundCheckpointError, UnsupportedQueryError
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.reasons import Uncovered, fallback_of
from pyslash.spark.execution import SparkBatch
from pyslash.spark.failure import JobFunctionError, StoppedError, is_of_python
from pyslash.units import Epoch

logger = logging.getLogger("pyslash")
_MOST_RECOVERIES = 3
_FINAL = (FencedError, PlanMismatchError, RewoundCheckpointError, Uncovered)


class EpochRunner:
    """What Spark calls with each micro-batch of one started query."""

    def __init__(
        self,
        operators: Sequence[OperatorPlan],
        sink: Sink,
        conf: Conf,
        secret: bytes,
        spark_batch: Callable[[DataFrame], SparkBatch],
        watch: QueryWatch | None = None,
        name: str = "",
        ports: Ports | None = None,
        backlog: Backlog | None = None,
    ) -> None:
        """`operators`, each after those below it; `spark_batch` wraps the micro-batch that Spark calls this function
        with, as the first operator sees it; `watch` shows users what epochs do; `name` is the query's, if it has one;
        `ports` is what it reaches of the application; `backlog` is there if it does not read as Spark does.
        """
        ports = ports or Ports()
        self.operators = [OperatorRunner(operator, conf, secret, ports) for operator in operators]
        self.progress: ProgressLog | None = None
        self.ending = threading.Lock()  # held while `end` is called
        # An epoch; Spark calls a query inactive while the last one is yet to end. And whether no other one may begin.
        self.is_running = self.is_over = False
        self.sink = sink
        self._conf = conf
        self._spark_batch = spark_batch
        self._settle = ports.settle
        self._watch = watch
        self._name = name
        self._held = HeldWatermark()
        self._backlog = backlog
        self._reads_topics = True
        self.is_left_to_spark = False  # once and for all: its state is in Spark's own store

    def __call__(self, batch: DataFrame, epoch: Epoch) -> None:
        """Run one epoch. While agents are lost, run it again, from the stored state.

        Raises:
            SlashError: typed, with what to do; Spark ends the query with it, and may restart it.
            JobFunctionError: the job's own function has raised something; it is not called again.
            StoppedError: the query was stopped.
            Exception: Spark's own error.
        """
        self.is_running = True
        try:
            self._run(batch, epoch)
        finally:
            self.is_running = False

    def _run(self, batch: DataFrame, epoch: Epoch) -> None:
        if self.is_over:
            raise StoppedError
        if self.is_left_to_spark:
            self.sink.write(batch, epoch)
            return
        execution = self._spark_batch(batch)
        if self.progress is None:
            self._settle(execution.query_id)
            retained = self._conf.progress_retained * len(self.operators)
            self.progress = ProgressLog(str(execution.query_id), retained)
            if self._watch is not None:
                self._watch.began(str(execution.query_id), execution.run_id)
        for operator in self.operators:
            operator.begin()
        try:
            self._execute(execution, epoch, self.progress)
        except Exception as error:
            if execution.is_stopped_by(error):
                raise StoppedError from error
            if not self._is_left_to_spark(execution, epoch, error):
                raise
            self._leave_to_spark(execution, epoch, error)
            self.sink.write(batch, epoch)

    def _is_left_to_spark(self, execution: SparkBatch, epoch: Epoch, error: Exception) -> bool:
        """Whether Spark executes its operators itself from here on: it has their state, or there is no state yet.

        Raises:
            UnsupportedQueryError, PlanMismatchError: Spark cannot, or must not.
        """
        if isinstance(error, JobFunctionError):
            return False
        has_state = any(operator.has_state for operator in self.operators)
        if isinstance(error, Uncovered) and self._conf.mode == "require":
            raise UnsupportedQueryError(
                f"spark.slash.mode=require, but pyslash does not cover this query: {error}"
            ) from error
        if isinstance(error, Uncovered) and has_state:
            raise PlanMismatchError(
                f"epoch {epoch} is planned as another query than the one that started: {error}"
            ) from error
        if self._conf.mode == "require" or isinstance(error, FencedError | RewoundCheckpointError):
            return False
        if any(operator.runs_no_python for operator in self.operators) and is_of_python(error):
            return False  # the job's own: Spark would only run it, and what it does outside, once more
        has_logged = any(operator.has_logged for operator in self.operators)
        is_first = epoch == 0 and not has_state and not has_logged
        truncates = any(operator.plan.windows_truncated for operator in self.operators)
        if not isinstance(error, Uncovered):
            # Where Spark could not run it, the error is what there is to say.
            if not is_first or not execution.is_active or truncates or self._backlog is not None:
                return False
            return not any(one.was_logged(execution.of(at), epoch) for at, one in enumerate(self.operators))
        if self._backlog is not None:
            raise UnsupportedQueryError(
                f"{error}. Plain Spark cannot continue this query, which does not read its source as Spark does; set "
                "spark.slash.backlog=ordered and spark.slash.shed=off to run it on plain Spark"
            ) from error
        if truncates:
            raise UnsupportedQueryError(
                f"{error}. Plain Spark cannot continue this query, planned without most of a row's windows; set "
                "spark.slash.mode=off to run it on plain Spark from its start"
            ) from error
        return True

    def _leave_to_spark(self, execution: SparkBatch, epoch: Epoch, error: Exception) -> None:
        """Remove what the failed attempt left, so that the checkpoint has no state of ours beside Spark's.

        Raises:
            CheckpointError: a manifest may be in the checkpoint, and cannot be deleted.
            RewoundCheckpointError: there are manifests of other batches than Spark's.
        """
        for index, operator in enumerate(self.operators):
            operator.abandon_to_spark(execution.of(index), epoch)
        fallback = fallback_of(error)
        logger.warning("query %s runs on plain Spark: %s", self._name or execution.query_id, fallback)
        if self._watch is not None:
            self._watch.left(fallback)
        execution.forget_counts()
        self.end(resumable=False)
        self.is_left_to_spark = True

    def _execute(self, execution: SparkBatch, epoch: Epoch, log: ProgressLog) -> None:
        begin = time.perf_counter()
        progress = [EpochProgress(epoch, index) for index in range(len(self.operators))]
        backlog = self._backlog.figures(execution.backlog) if self._backlog is not None else BacklogFigures()
        while True:
            try:
                batches, result = self._prepare(execution, epoch, progress)
                if self._backlog is not None:
                    result = self._backlog.rows(result)
            except Exception as error:
                self._begin_again(execution, epoch, progress, error)
                continue
            try:
                with progress[-1].timed("sink"):
                    self.sink.write(result, epoch)
                break
            except Exception as error:
                if not self.sink.repeats:
                    raise
                self._begin_again(execution, epoch, progress, error)
        held = self._held.look(execution, time.monotonic())
        behind = self._records_behind(execution)
        for operator, batch, figures in zip(self.operators, batches, progress, strict=True):
            operator.emitted(batch, figures)
            figures.take(held)
            figures.take(backlog)
            figures.behind = behind
            log.add(figures)
        spent_ms = (time.perf_counter() - begin) * 1000
        if self._backlog is not None:
            execution.took(spent_ms)
        if self._watch is not None:
            self._watch.epoch(spent_ms, progress)

    def _records_behind(self, execution: SparkBatch) -> int:
        """Of the query's topics; a query that reads none is asked until it has rows: each time would cost a call."""
        if not self._reads_topics:
            return 0
        behind = execution.records_behind()
        self._reads_topics = behind >= 0 or execution.cut.is_without_rows
        return max(behind, 0)

    def _prepare(
        self, execution: SparkBatch, epoch: Epoch, progress: list[EpochProgress]
    ) -> tuple[list[SparkBatch], DataFrame]:
        """Everything of an epoch but the sink: the micro-batch as each operator sees it, and the rows of the query."""
        batches = [execution]
        for operator, figures in zip(self.operators, progress, strict=True):
            plan = operator.merged(batches[-1], epoch, figures)
            if len(batches) == len(self.operators):
                break
            batches.append(batches[-1].above(plan))
        return batches, batches[-1].result(plan)

    def _begin_again(
        self, execution: SparkBatch, epoch: Epoch, progress: list[EpochProgress], error: Exception
    ) -> None:
        """Forget the failed run if another one may succeed; else raise its error."""
        is_final = progress[0].recoveries == _MOST_RECOVERIES or isinstance(error, _FINAL)
        # What a stop has cancelled looks like a job that has failed, and nothing would cancel the next one.
        if is_final or not execution.is_active or not any(one.can_begin_again(error) for one in self.operators):
            raise error
        logger.warning("epoch %d starts over: %s", epoch, error)
        for operator, figures in zip(self.operators, progress, strict=True):
            operator.begin_again()
            figures.recoveries += 1

    def end(self, resumable: bool) -> None:
        """The query has ended: free its state in the agents, unless a restart needs it and has it from nowhere else.

        Args:
            resumable: it has a checkpoint, so it may be started again.
        """
        for operator in self.operators:
            operator.end(resumable)
