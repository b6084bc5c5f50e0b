"""What a run of a query takes of backfills: their blocks, as blocks of the epoch that begins."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from pyslash.cluster.coordinator import Coordinator
from pyslash.operators.base import EpochInputs
from pyslash.plan.operator import OperatorPlan
from pyslash.spark.spark_log import notice
from pyslash.state.backfill import Backfill, Backfills
from pyslash.state.manifest import ManifestLog
from pyslash.state.receipt import Receipt
from pyslash.units import NO_EPOCH, Epoch

logger = logging.getLogger("pyslash")
# On a store that is not local a look costs more than some micro-batches do.
_SECONDS = 10.0


class Backfilling:
    """Of one operator, in one run."""

    def __init__(
        self, backfills: Backfills, plan: OperatorPlan, coordinator: Coordinator, manifests: ManifestLog
    ) -> None:
        self._backfills = backfills
        self._plan = plan
        self._coordinator = coordinator
        self._manifests = manifests
        self._settled: set[str] = set()  # a run's state never goes back
        self._looked: float | None = None
        self._epoch = NO_EPOCH  # of that look

    def take(self, inputs: EpochInputs) -> list[Receipt]:
        """Blocks of backfills that are due, published as blocks of this epoch. Without an agent they stay due.

        Raises:
            CheckpointError, CorruptBlockError, StateLostError: a backfill cannot be read.
            ArenaFullError: there is no room for it.
        """
        if not self._coordinator.agents or not self._is_time(inputs.epoch):
            return []
        due = self._backfills.due(inputs.last, self._manifests.look, self._settled)
        if self._plan.emission.new_only:
            due = due[:1]  # of rows with one key that of the older backfill is emitted
        taken = [receipt for one in due for receipt in self._take(one, inputs)]
        self._looked, self._epoch = time.monotonic(), inputs.epoch
        return taken

    def _is_time(self, epoch: Epoch) -> bool:
        # A run's first epoch always looks: the one before may have left a record, and no manifest. So does an update
        # that is repeated once there is room: what it has taken before was discarded.
        if self._looked is None or self._backfills.is_local or epoch == self._epoch:
            return True
        return time.monotonic() - self._looked >= _SECONDS

    def _take(self, one: Backfill, inputs: EpochInputs) -> list[Receipt]:
        location, manifest = self._backfills.state(one.name)
        late = one.late_groups([inputs.watermarks.evicted_us, *self._backfills.watermarks_above()])
        if replace(manifest.identity, is_adopted=self._plan.is_adopted) != self._plan.identity:
            return self._refuse(one, "its state is of another query: the query has changed since it was made")
        if late and one.late == "refuse":
            return self._refuse(one, f"{late} of its groups may be part of what the query has emitted by now")
        self._backfills.take(one.name, inputs.epoch, self._manifests.run)
        receipts = self._coordinator.take(inputs.epoch, location, manifest.files)
        notice(
            "epoch %d takes the backfill %s: %d groups, %d of them too late", inputs.epoch, one.name, one.groups, late
        )
        return receipts

    def _refuse(self, one: Backfill, why: str) -> list[Receipt]:
        self._backfills.refuse(one.name, why)
        logger.warning("the query does not take the backfill %s: %s", one.name, why)
        return []
