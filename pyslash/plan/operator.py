"""What pyslash knows of a stateful operator of Spark's that it executes: once for a query, from its physical plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from pyspark.sql import SparkSession

from pyslash.conf import Conf
from pyslash.plan.catalyst import JavaObject, answer
from pyslash.plan.change.evolution import Evolution
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.columns import Column
from pyslash.plan.cut import OperatorCut
from pyslash.plan.emission import Emission
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.spec import PlanSpec
from pyslash.plan.window import TimeWindow


@dataclass(frozen=True, kw_only=True)
class OperatorPlan(ABC):
    """A stateful operator of a query that is covered: how its state is grouped, and of what.

    `spec` is the plan of the state; column 0 of the input is the event time, and `columns` are the further ones. Spark
    evaluates every expression. `fingerprint` is a digest of all that decides which rows there are. `scan_obstacle` is
    why only Spark can read the input, if it were of Parquet files. `windows_truncated`: the plan has only some of a
    row's windows, which are too many for Spark to plan in each micro-batch. `stands_on_others`: its input has rows of
    other operators with state. `sources`: how many streams its rows come from, those of the others among them.
    `first_batch`, `is_adopted` and `key_order` as of `PlanIdentity`.
    """

    node: ClassVar[str]
    """The class of Spark's node, without its package."""
    gives: ClassVar[str] = "columns: merged by executors"
    """How its rows reach Spark, as users read it."""
    may_repartition: ClassVar[bool] = True
    """Whether rows may go to the owner of their key before they are grouped."""

    mode: OutputMode
    time: Column
    keys: list[Column]
    columns: list[Column]
    spec: PlanSpec
    fingerprint: str
    scan_obstacle: str | None
    windows_truncated: bool
    stands_on_others: bool = False
    sources: int = 1
    first_batch: tuple[int, ...] = ()
    is_adopted: bool = False
    key_order: tuple[int, ...] = ()

    @classmethod  # noqa: B027, most operators are never switched off
    def check(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, conf: Conf) -> None:
        """Pass if this configuration lets pyslash execute it. The arguments are those of `of`, which comes after it.

        Raises:
            Uncovered: it does not; the message is the reason.
        """

    @classmethod
    @abstractmethod
    def of(
        cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, windows_truncated: bool
    ) -> Self:
        """Read it from the physical plan of a query that has not started.

        Args:
            bridge: the JVM's `io.pyslash.Bridge`.
            plan: the physical plan.
            node: the operator in it.
            mode: of the query.
            windows_truncated: the plan has only some of a row's windows.

        Raises:
            Uncovered: the message is the reason.
        """

    @abstractmethod
    def without(self, bridge: JavaObject, plan: JavaObject, node: JavaObject, session: SparkSession) -> JavaObject:
        """The plan with no rows instead of the operator, in which the operators above it are found."""

    @abstractmethod
    def cut(self, bridge: JavaObject, plan: JavaObject, node: JavaObject) -> OperatorCut:
        """The operator in the plan of a micro-batch.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """

    @property
    @abstractmethod
    def emission(self) -> Emission:
        """Which of its groups reach the sink, and which panes are still needed."""

    @property
    @abstractmethod
    def grouping(self) -> str:
        """What rows are grouped by besides keys, as users read it."""

    @property
    @abstractmethod
    def explain_lines(self) -> list[tuple[str, str]]:
        """What it does, for `explain`: names, and what there is of each."""

    @property
    def window(self) -> TimeWindow:
        """The window that rows are grouped by."""
        return self.spec.window

    @property
    def text(self) -> str:
        """The plan of the state as native code reads it."""
        return self.spec.text

    @property
    def summary(self) -> str:
        """What it does, in one line of a log."""
        return self.grouping

    @property
    def backfill_obstacle(self) -> str:
        """Why its state cannot be put together with what another run has made of other rows; empty if it can."""
        return "two states that its code has made of different rows do not make one"

    @property
    def ordered_by_arrival(self) -> str:
        """What of it depends on the order in which records come; empty if nothing does."""
        return self.summary if self.backfill_obstacle or self.emission.new_only else ""

    @property
    def begin_at(self) -> int | None:
        """The column of merged rows that says when a group begins, for `Emission.final_by`; None: its pane does."""
        return None

    @property
    def has_buffers(self) -> bool:
        """Whether some of its state are buffers that Spark's own code makes."""
        return False

    @property
    def input_columns(self) -> str:
        """The columns of the input, as `OperatorCut.begin` takes them."""
        return ""

    @property
    def of_rows(self) -> OperatorPlan:
        """The plan by which tasks group an epoch's rows: the operator's own, unless it has a second step."""
        return self

    @cached_property
    def identity(self) -> PlanIdentity:
        """What state of this query can be told by from state of another."""
        columns = tuple(column.sql for column in self.columns)
        types = (self.time.type, *(column.spark_type for column in self.columns))
        return PlanIdentity(
            self.spec,
            columns,
            self.time.sql,
            self.first_batch,
            self.is_adopted,
            types=types,
            key_order=self.key_order,
        )

    def evolved(self, evolution: Evolution) -> Self:
        """The same, over the columns that the state of an earlier query has become."""
        plan = evolution.plan
        types = {column.sql: column.spark_type for column in self.columns}
        columns = [Column(one.type, one.nullable, one.sql, types.get(one.sql, "")) for one in plan.inputs]
        return replace(
            self,
            columns=columns,
            keys=[columns[index - 1] for index in plan.key_places],
            spec=plan.spec,
            first_batch=plan.first_batch,
            is_adopted=plan.is_adopted,
            key_order=evolution.keys,
        )


def cut_of(bridge: JavaObject, operators: Sequence[OperatorPlan], plan: JavaObject) -> OperatorCut:
    """The first of these operators, which are all that there are, in the physical plan that Spark has made.

    Raises:
        Uncovered: Spark has planned this micro-batch otherwise.
    """
    nodes = bridge.statefulOperators(plan)
    names = answer(bridge.names(nodes))
    if names != [operator.node for operator in operators]:
        raise Uncovered(f"this micro-batch is planned with {names}")
    return operators[0].cut(bridge, plan, nodes.get(0))
