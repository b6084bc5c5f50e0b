"""Buffers of Spark's own code, of groups that no watermark ends: now and then one takes the place of all of a group's.

A task of each micro-batch adds a buffer to each group that it has rows of (docs/design/031). Only Spark's code can make
one buffer of several, so that agents cannot: a job reads all groups, merges the buffers of those that have many, and
publishes what has become of them as blocks of the epoch. Such a buffer says up to which epoch it stands for all others.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from pyslash.emit.merge import HomeUpdate
from pyslash.emit.merging import Merging
from pyslash.operators.base import EpochInputs, RunTools
from pyslash.plan.emission import Emission
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.window import NO_WATERMARK_US, windows_between
from pyslash.state.receipt import Receipt
from pyslash.state.version import VersionStep
from pyslash.units import Epoch

# A group with fewer buffers is left as it is, unless folds are more frequent.
_MANY = 8


class _AllGroups(Emission):
    """Merged for one job, and kept nowhere."""

    @property
    def keeps_groups(self) -> bool:
        """No."""
        return False


class BufferFolding:
    """The jobs of one run of an operator."""

    def __init__(self, plan: OperatorPlan, result_schema: StructType, run: RunTools) -> None:
        """`result_schema` is that of merged rows."""
        self._plan = plan
        self._run = run
        self._epochs = run.conf.buffer_fold_epochs
        self._many = max(2, min(_MANY, self._epochs))
        every = _AllGroups(OutputMode.COMPLETE, plan.window, bool(plan.keys))
        self._merging = Merging(run.session, plan.text, result_schema, every, run.conf, run.reading)

    def is_due(self, epoch: Epoch) -> bool:
        """Whether buffers are folded in this epoch; any attempt at it answers the same."""
        return epoch % self._epochs == self._epochs - 1

    def fold(self, inputs: EpochInputs) -> list[Receipt]:
        """Blocks of the epoch with one buffer for each of those groups that had many before it."""
        state = self._run.coordinator.version
        windows = windows_between(self._plan.window, state.panes(), NO_WATERMARK_US)
        if inputs.last is None or not windows:
            return []
        session, last = inputs.batch.session, inputs.last.epoch
        nothing_kept = HomeUpdate(VersionStep("", ""), last, NO_WATERMARK_US)
        groups, _ = self._merging.merge(session, state, windows, nothing_kept)
        rows = inputs.batch.cut.java.folded(groups._jdf, self._plan.input_columns, last, self._many)
        return self._run.ingest.publish(session, rows, self._plan.spec, inputs.epoch)
