"""The tasks of an epoch's update, with the attempts that the schedule gives each: by one strategy or the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyslash.emit.aggregate_rows import AggregateRows
from pyslash.errors import ArenaFullError
from pyslash.plan.spec import PlanSpec, SessionPlace
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.jvm_bridge import TaskRead
from pyslash.state.receipt import Receipt, receipt_bytes
from tests.model.agents import Fill
from tests.model.rows import Row, batch_of
from tests.model.schedule import TASK, Kind
from tests.model.world import Injected

if TYPE_CHECKING:
    from tests.model.spark import MicroBatch, Query

QUERY = UUID(int=0x5159)
SECRET = bytes(32)


class Ingest:
    """The update job: one task a partition."""

    path = "model"

    def __init__(self, query: Query) -> None:
        self._query = query
        self.shuffled: dict[str, int] = {}
        self.scattering_ns = 0
        self.reads: tuple[TaskRead, ...] = ()
        self.records_by_spark = self.records_fetched = 0
        self._full = 0  # times that no task finds room

    def close(self) -> None:
        """Nothing was sent to executors."""

    def update(
        self, execution: MicroBatch, number: int, watermark_us: int, place: SessionPlace | None = None
    ) -> list[Receipt]:
        """Receipts of the winning attempts."""
        return self._partitions(execution, self._query.workload.plan, number, watermark_us)

    def task(self, plan: str, fill: Fill, number: int, watermark_us: int) -> Receipt:
        """The receipt of the attempt that wins."""
        world = self._query.world
        fault = world.point("runs a task", TASK)
        self._full += 2 * (fault is Kind.ARENA_FULL)
        if self._full:
            self._full -= 1
            raise ArenaFullError("the arena has no room for a block of 64 bytes")
        if fault is Kind.ZOMBIE:
            self._agent().publish_later(world, *self._attempt(plan, fill, number, watermark_us))
        receipts = [self._publish(plan, fill, number, watermark_us)]
        if fault in (Kind.TASK_RETRIED, Kind.SPECULATED):
            world.point("has published a first attempt")
            receipts.append(self._publish(plan, fill, number, watermark_us))
        if fault is Kind.JOB_FAILS:
            raise Injected("a task failed four times")
        world.point("has published")
        return receipts[-1] if fault is Kind.TASK_RETRIED else world.chance.choice(receipts)

    def _partitions(self, execution: MicroBatch, plan: str, number: int, watermark_us: int) -> list[Receipt]:
        if execution.cut.is_without_rows:
            return []
        execution.cut.reset_counts()
        receipts = []
        for rows in execution.partitions:
            self._query.keep()
            receipts.append(self.task(plan, _adding(rows), number, watermark_us))
            execution.cut.times.add(rows)
        return receipts

    def _publish(self, plan: str, fill: Fill, number: int, watermark_us: int) -> Receipt:
        agent = self._agent()
        head = agent.publish(*self._attempt(plan, fill, number, watermark_us))
        return Receipt.parse(receipt_bytes(agent.descriptor, head))

    def _attempt(self, plan: str, fill: Fill, number: int, watermark_us: int) -> tuple[str, Fill, int, bytes, int, int]:
        return plan, fill, watermark_us, QUERY.bytes, number, self._query.next_attempt()

    def _agent(self) -> Any:
        world = self._query.world
        return world.chance.choice(world.running.cluster.ensure())


class Owners(Ingest):
    """Both jobs of `pyslash.emit.repartition`, the second one with its own tasks."""

    _BITS, _OWNERS = 3, 2

    def __init__(self, query: Query, add_agents: Callable[[list[AgentDescriptor]], None]) -> None:
        super().__init__(query)
        self._add_agents = add_agents

    def update(
        self, execution: MicroBatch, number: int, watermark_us: int, place: SessionPlace | None = None
    ) -> list[Receipt]:
        """Receipts of owners' winning attempts."""
        plan = PlanSpec.decode(self._query.workload.plan).of_rows(self._BITS).text
        scattered = self._partitions(execution, plan, number, watermark_us)
        written = [receipt for receipt in scattered if receipt.head.length > 0]
        if not written:
            return scattered
        self._add_agents([receipt.agent for receipt in written])
        blocks = [(receipt.agent, receipt.raw_head) for receipt in written]
        sealing: Any = _Sealing(self, number, watermark_us, self._query.workload.plan)
        aggregate = AggregateRows(sealing, blocks, self._BITS, self._OWNERS, "model", 30)
        return [Receipt.parse(aggregate(owner)[0]) for owner in range(self._OWNERS)]


@dataclass(frozen=True)
class _Sealing:
    """What an owner's task asks of `BlockPublisher`."""

    ingest: Ingest
    number: int
    watermark_us: int
    plan: str
    query = QUERY.bytes
    secret = SECRET

    def sealed(self, fill: Fill) -> bytes:
        """A task of its own, with all of its attempts."""
        receipt = self.ingest.task(self.plan, fill, self.number, self.watermark_us)
        return receipt_bytes(receipt.agent, receipt.raw_head)


def _adding(rows: list[Row]) -> Fill:
    return lambda accumulator: accumulator.add(batch_of(rows))
