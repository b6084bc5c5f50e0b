"""The steps of a stateful operator's epochs. The driver calls them in this order, and knows no operator:

    pane -> update (and what has to follow it before the epoch is logged) -> merge -> the sink -> counts

A new operator is one file or folder here, and one line in `table`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import SparkSession

from pyslash.cluster.coordinator import Coordinator
from pyslash.conf import Conf
from pyslash.emit.column_merge import ReadOptions
from pyslash.emit.merging import MergeFigures
from pyslash.ingest.update_job import Ingest
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.spec import SessionPlace
from pyslash.plan.watermarks import Watermarks
from pyslash.spark.execution import LoggedOffsets, SparkBatch, check_times
from pyslash.state.manifest import Manifest
from pyslash.state.receipt import Receipt
from pyslash.state.version import LiveBlock, StateVersion
from pyslash.units import Epoch


@dataclass(frozen=True)
class RunTools:
    """What the epochs of one run of a query share: `ingest` groups rows, `reading` says how blocks are read."""

    session: SparkSession
    conf: Conf
    coordinator: Coordinator
    ingest: Ingest
    reading: ReadOptions


@dataclass(frozen=True)
class EpochInputs:
    """An epoch before its update.

    `offsets` are what Spark has logged of the batch. `last` is the manifest of the epoch before, if there is one; the
    epoch goes on from its pane, and puts its state into `pane`. `taken` are published blocks of backfills, which the
    operator makes part of the epoch's state; what it makes of them otherwise, the epoch's commit frees.
    """

    batch: SparkBatch
    epoch: Epoch
    watermarks: Watermarks
    offsets: LoggedOffsets
    last: Manifest | None
    pane: int
    taken: list[Receipt] = field(default_factory=list)

    @property
    def last_pane(self) -> int:
        """The pane of the epoch before."""
        return self.last.pane if self.last is not None else 0

    @property
    def taken_panes(self) -> set[int]:
        """Those that `taken` has groups of."""
        return {pane for receipt in self.taken for pane, _, _ in receipt.head.panes}


@dataclass(frozen=True)
class Update:
    """What an update has published: the blocks of the epoch's state, and what tells how many rows it has taken.

    `counted` and `late` are rows besides those that the receipts of `rows` tell of, and the late ones among them.
    """

    blocks: list[Receipt]
    rows: list[Receipt]
    counted: int = 0
    late: int = 0

    @property
    def written(self) -> list[Receipt]:
        """The blocks that there are: those of tasks without a group are empty."""
        return [receipt for receipt in self.blocks if receipt.head.length > 0]


@dataclass(frozen=True)
class MergeInputs:
    """An epoch after its commit: all that is live, the blocks of it that it has written, and the windows it emits."""

    manifest: Manifest
    version: StateVersion
    changes: list[LiveBlock]
    windows: list[int]


@dataclass(frozen=True)
class Merged:
    """The micro-batch's plan over the operator's rows, and what is known of them before a job has run over them."""

    plan: JavaObject
    figures: MergeFigures


class StatefulOperator(ABC):
    """A stateful operator in one run of its query. `plan_type` reads it from Spark's plan, and knows its state."""

    plan_type: ClassVar[type[OperatorPlan]]
    folds: ClassVar[bool] = False
    """Whether blocks of an epoch may be folded before they are stored: they hold groups, and nobody has read them."""

    def __init__(self, plan: OperatorPlan, run: RunTools) -> None:
        self.plan = plan
        self._run = run

    def pane(self, epoch: Epoch, last_pane: int) -> int:
        """Where the state of an epoch goes, of operators that have one pane for all of it."""
        return last_pane

    def update(self, inputs: EpochInputs) -> Update:
        """Turn the epoch's rows into state, and do all that the operator needs before the epoch is logged."""
        rows = self._take_rows(inputs)
        return Update([*inputs.taken, *rows], rows)

    @abstractmethod
    def merge(self, batch: SparkBatch, inputs: MergeInputs) -> Merged:
        """The operator's rows, in the place of Spark's operator. The sink may run the plan more than once."""

    @abstractmethod
    def new_counts(self) -> dict[str, int]:
        """Bytes that tasks have read, by transport, and the rows that they have returned, since the last call."""

    @abstractmethod
    def forget(self) -> None:
        """The query has ended: have executors drop what they keep from epoch to epoch."""

    @abstractmethod
    def close(self) -> None:
        """The run is over; executors keep what they have."""

    def counts(self, manifest: Manifest, groups: int, merged_rows: int | None) -> dict[str, int]:
        """Spark's metrics of the operator that depend on what it does.

        Args:
            manifest: of the epoch.
            groups: that the epoch's tasks have sealed.
            merged_rows: that it has given to what is above; None: nothing has asked for its rows, which
                what is above has of a first attempt.
        """
        return {"numUpdatedStateRows": max(groups, int(self.plan.emission.is_global))}

    def _take_rows(self, inputs: EpochInputs, place: SessionPlace | None = None) -> list[Receipt]:
        """Group the epoch's rows; `place` as `Ingest.update` takes it."""
        receipts = self._run.ingest.update(inputs.batch, inputs.epoch, inputs.watermarks.late_us, place)
        check_times(inputs.batch.cut, sum(receipt.head.rows for receipt in receipts))
        return receipts
