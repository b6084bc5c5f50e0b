"""Deduplication within the watermark: Spark's `StreamingDeduplicateWithinWatermarkExec`.

An epoch has two plans. By that of `candidates` tasks group their rows, as for any deduplication. What of them is
emitted is the operator's state, by its own plan: the same columns and when a key expires, in panes of that time
(docs/design/025).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar, Self

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from pyslash.emit.merge import BOUNDS
from pyslash.operators.deduplication import PANE_US, DeduplicationPlan
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.change.evolution import Evolution
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.columns import Column
from pyslash.plan.cut import JavaCut
from pyslash.plan.emission import Emission
from pyslash.plan.functions import Aggregate
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.spec import AggregateSpec, PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.units import Micros

_EXPIRY = Column("int64", False, "expiry")


@dataclass(frozen=True, kw_only=True)
class _Candidates(DeduplicationPlan):
    """The first row of each key of an epoch, of whatever time."""

    @classmethod
    def _window(cls, found: JavaObject, windows_truncated: bool) -> TimeWindow:
        return TimeWindow.all_time()


@dataclass(frozen=True)
class ExpiryEmission(Emission):
    """What an epoch has settled is emitted at once, and read by nobody else than the epochs that settle after it."""

    @property
    def keeps_groups(self) -> bool:
        """No: what is emitted has been merged by then."""
        return False

    def final_by(self, begin: int) -> int:
        """Its event time: of later ones, any key that they repeat has yet to expire."""
        return begin

    def windows(
        self, held: set[int], changed: set[int], emitted_us: Micros, watermark_us: Micros, pane: int
    ) -> list[int]:
        """The panes that the epoch has written."""
        return sorted(changed)


@dataclass(frozen=True, kw_only=True)
class WithinWatermarkPlan(DeduplicationPlan):
    """A deduplication within the watermark that is covered.

    The last of `columns` is when a row's key expires, microseconds; the last of `aggregates` and of `result_schema` is
    the same of a group. `candidates` groups the input's rows. `time_at` is which column of its merged rows, behind the
    bounds of the window, is the event time. `delay_us` is the watermark's delay, which a restart may change.
    """

    node: ClassVar[str] = "StreamingDeduplicateWithinWatermarkExec"

    candidates: DeduplicationPlan
    time_at: int
    delay_us: Micros

    @classmethod
    def of(
        cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, windows_truncated: bool
    ) -> Self:
        """Read it from the physical plan of a query that has not started.

        Raises:
            Uncovered: the message is the reason.
        """
        candidates = _Candidates.of(bridge, plan, node, mode, windows_truncated)
        found = cls._found(bridge, plan, node, mode)
        given = {field.name: getattr(candidates, field.name) for field in fields(candidates)}
        aggregates = [replace(one, function=_newest(one.function)) for one in candidates.aggregates]
        return cls(
            **{
                **given,
                "columns": [*candidates.columns, _EXPIRY],
                "aggregates": [*aggregates, Aggregate("max", False, _EXPIRY.sql)],
                "spec": _spec(candidates.spec),
                "result_schema": StructType(
                    [*candidates.result_schema.fields, StructField("expiry", LongType(), False)]
                ),
            },
            candidates=candidates,
            time_at=int(found.timeAt()),
            delay_us=Micros(int(found.delay()) * 1000),
        )

    @cached_property
    def emission(self) -> Emission:
        """Which groups reach the sink."""
        return ExpiryEmission(self.mode, self.window, bool(self.keys), new_only=True)

    @cached_property
    def input_columns(self) -> str:
        """The columns of the input: those of the candidates, as nothing expires there yet."""
        return self.candidates.input_columns

    @property
    def of_rows(self) -> DeduplicationPlan:
        """Rows are grouped as candidates."""
        return self.candidates

    def evolved(self, evolution: Evolution) -> Self:
        """The same, over the columns that the state of an earlier query has become."""
        places = tuple(index for index in evolution.sources if index != len(self.columns))  # all but the expiry
        plan = _identity_of_candidates(self.candidates.spec, evolution.plan)
        of_candidates = replace(evolution, plan=plan, sources=places)
        candidates = self.candidates.evolved(of_candidates)
        time_at = self.time_at
        if time_at < len(evolution.keys):
            time_at = evolution.keys.index(time_at)
        return replace(self._over(evolution, candidates.slots), candidates=candidates, time_at=time_at)

    @property
    def begin_at(self) -> int | None:
        """The event time of the row: its pane is of when the key expires."""
        return BOUNDS + self.time_at

    @property
    def explain_lines(self) -> list[tuple[str, str]]:
        """What it does, for `explain`: names, and what there is of each."""
        *told, _ = self.candidates.explain_lines
        seconds = f"{self.delay_us / 1e6:f}".rstrip("0").rstrip(".")
        return [*told, ("kept", f"for {seconds} s after {self.time.sql} of the row that was emitted")]

    @property
    def columns_of_candidates(self) -> list[int]:
        """Of each of `columns` but the last, which column of the candidates' merged rows it is, behind the bounds."""
        read = [*((key,) for key in self.spec.keys), *(one.columns for one in self.spec.aggregates)]
        # A floating-point key is both: the later one is as the row has it.
        places = {column: at for at, columns in enumerate(read) for column in columns}
        return [places[column] for column in range(1, len(self.columns))]

    def without(self, bridge: JavaObject, plan: JavaObject, node: JavaObject, session: SparkSession) -> JavaObject:
        """The plan with no rows instead of the operator, in which the operators above it are found."""
        return self.candidates.without(bridge, plan, node, session)

    def cut(self, bridge: JavaObject, plan: JavaObject, node: JavaObject) -> JavaCut:
        """The operator in the plan of a micro-batch.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """
        return self.candidates.cut(bridge, plan, node)


def _newest(function: str) -> str:
    """Of entries of a key in one pane the newest one counts: the others had expired when it was made."""
    return "last" if function == "first" else function


def _spec(candidates: PlanSpec) -> PlanSpec:
    """The plan of the state: the candidates' with one more column, and with that of the newest entry of a key."""
    columns = (*candidates.columns, _EXPIRY.spec)
    newest = (replace(one, function=_newest(one.function)) for one in candidates.aggregates)
    expiry = AggregateSpec("max", (len(columns),))
    return replace(candidates, window=TimeWindow(PANE_US, PANE_US, 0), columns=columns, aggregates=(*newest, expiry))


def _identity_of_candidates(candidates: PlanSpec, plan: PlanIdentity) -> PlanIdentity:
    """Of the plan that an epoch's rows are grouped by, for a plan of the state: what `_spec` adds taken away."""
    of_state = plan.spec
    aggregates = (
        replace(one, function=known.function)
        for one, known in zip(of_state.aggregates[:-1], candidates.aggregates, strict=True)
    )
    spec = replace(of_state, window=candidates.window, columns=of_state.columns[:-1], aggregates=tuple(aggregates))
    return replace(plan, spec=spec, columns=plan.columns[:-1], first_batch=plan.first_batch[:-1])
