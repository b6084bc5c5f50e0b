"""What executors keep of a query from epoch to epoch: homes, each with a range of keys (docs/design/024)."""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pyslash import memory
from pyslash.cluster.find_agents import executors
from pyslash.conf import Conf
from pyslash.emit.column_merge import HOME_GROUPS, HOMES, ColumnMerge
from pyslash.emit.merge import HomeUpdate
from pyslash.epoch_progress import ABOVE_NS, MERGE_NS
from pyslash.state.version import Size

logger = logging.getLogger("pyslash")

# A home is made anew where it is lost: a core reads so many bytes of groups in a tenth of a second or two.
_LARGE_HOME = 256 << 20
# Where tasks took longer in each of so many epochs, all cores share whatever keeps them so long above the operator.
_LONG_TASK_NS = 100_000_000
_EPOCHS_OF_LONG_TASKS = 8


@dataclass(frozen=True)
class Opened:
    """The homes of an epoch: so many ranges of keys; whether those that have lost nothing read its changes alone."""

    ranges: int
    follow: bool

    @property
    def name(self) -> str:
        """As figures have it."""
        return "1 home" if self.ranges == 1 else f"{self.ranges} homes"


class Homes:
    """The homes of one query."""

    def __init__(self, what: str, conf: Conf, columns: ColumnMerge) -> None:
        """`what`: the name of what they keep, for messages; `columns`: makes the tasks that keep it."""
        self.ranges = 0  # of keys, once executors keep some
        self._what = what
        self._conf = conf
        self._columns = columns
        self._groups = 0  # that they hold at most; 0: nobody has told
        self._has_told_room = False  # that there is not enough
        self._task_ns: deque[float] = deque(maxlen=_EPOCHS_OF_LONG_TASKS)  # of a task, in the last epochs that had any

    def open(self, session: SparkSession, kept: HomeUpdate, needed: int, changed: int) -> Opened | None:
        """Executors keep homes of `needed` bytes in all, of which an epoch has changed so many bytes in blocks.

        None: they have no memory for them, and drop those that they keep.
        """
        if not self._have_room(session, needed):
            self.forget()
            return None
        wanted = self._wanted(session.sparkContext.defaultParallelism, needed, changed)
        if is_new := wanted >= 2 * self.ranges:
            self.forget()
            self.ranges = wanted
        return Opened(self.ranges, follow=not is_new and kept.step.before != "")

    def _have_room(self, session: SparkSession, needed: int) -> bool:
        if needed <= self._conf.home_bytes or needed <= self._conf.home_bytes * executors(session):
            return True
        if not self._has_told_room:
            logger.warning(
                "executors do not keep %s, which would take %d MiB, so each epoch reads all blocks; raise "
                "spark.slash.home.size to keep them",
                self._what,
                needed >> 20,
            )
        self._has_told_room = True
        return False

    def _wanted(self, cores: int, needed: int, changed: int) -> int:
        """How many ranges are worth their tasks.

        n tasks that share some work, and of which each costs a driver as much as `worth_a_task` of it, take
        work / n + n * worth_a_task: least where n is the root of work / worth_a_task.
        """
        worth_a_task = self._conf.worth_a_task
        are_long = len(self._task_ns) == _EPOCHS_OF_LONG_TASKS and min(self._task_ns) > _LONG_TASK_NS
        if are_long or not worth_a_task:
            return cores
        by_work = math.ceil(math.sqrt(changed / worth_a_task))
        by_memory = -(-needed // max(1, min(self._conf.home_bytes // 2, _LARGE_HOME)))
        return max(1, min(cores, max(by_work, by_memory)))

    def groups_with(self, changed: int) -> int:
        """How many groups they hold at most with so many that an epoch has changed; 0 if that is not known."""
        if self._groups:
            self._groups += changed
        return self._groups

    def new_counts(self) -> dict[str, int]:
        """What tasks have done since the last call, as `ColumnMerge.new_counts`, but for what they say of homes."""
        counts = self._columns.new_counts()
        opened, groups = counts.pop(HOMES), counts.pop(HOME_GROUPS)
        # A sink may read all rows more than once, or some of them.
        if self.ranges and opened and opened % self.ranges == 0:
            self._groups = groups * self.ranges // opened
        if self.ranges and (took := counts[MERGE_NS] + counts[ABOVE_NS]):
            self._task_ns.append(took / self.ranges)
        return counts

    def forget(self) -> None:
        """Have executors drop what they keep."""
        if not self.ranges:
            return
        try:
            self._columns.forget()
        except Py4JJavaError as error:
            logger.warning(
                "executors still keep %s that the query no longer needs: %s", self._what, error.java_exception
            )
        self.ranges = self._groups = 0


def bytes_of(size: Size) -> int:
    """Bytes that executors need to keep so many groups, or rows."""
    return memory.of_home(size.groups, size.bytes)
