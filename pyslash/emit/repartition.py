"""The strategy `repartition`: rows go to the owner of their key before they are aggregated (docs/design/015).

    scatter: the update job, under a plan of rows -> blocks of rows, in buckets of hash prefixes
    own:     a task for each core, with a range of buckets of every such block -> blocks of partial state

Only the receipts of the second job count. The epoch's commit frees the blocks of rows, which its manifest does not
name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from pyslash.conf import Conf
from pyslash.emit.aggregate_rows import AggregateRows
from pyslash.ingest.update_job import Ingest
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.spec import MOST_ROW_BITS, PlanSpec, SessionPlace
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.execution import SparkBatch
from pyslash.spark.job import run_numbered
from pyslash.state.receipt import Receipt, reported_heads
from pyslash.units import Epoch, Micros

# Owners take whole buckets: with this many for each of them, none has a quarter more than another.
_BUCKETS_AN_OWNER = 4

AddAgents = Callable[[list[AgentDescriptor]], None]


class Repartition(Ingest):
    """Runs both jobs for one query."""

    def __init__(
        self,
        session: SparkSession,
        plan: PlanSpec,
        conf: Conf,
        query_id: bytes,
        secret: bytes,
        add_agents: AddAgents,
    ) -> None:
        """`add_agents` gets the agents that hold rows: they must get the epoch's commit, whatever else they hold."""
        self._owners = min(session.sparkContext.defaultParallelism, 1 << MOST_ROW_BITS)
        self._bits = min((self._owners * _BUCKETS_AN_OWNER - 1).bit_length(), MOST_ROW_BITS)
        super().__init__(session, plan.of_rows(self._bits), conf, query_id, secret)
        self._aggregation = plan
        self._add_agents = add_agents

    def update(
        self, execution: SparkBatch, epoch: Epoch, watermark_us: Micros, place: SessionPlace | None = None
    ) -> list[Receipt]:
        """Both jobs; the receipts of owners."""
        scattered = super().update(execution, epoch, watermark_us)
        written = [receipt for receipt in scattered if receipt.head.length > 0]
        self.reads = ()  # which rows are late only their owners know
        self.shuffled = {}
        self.scattering_ns = sum(receipt.nanoseconds for receipt in scattered) if written else 0
        if not written:
            return scattered
        self._add_agents([receipt.agent for receipt in written])
        aggregate = AggregateRows(
            publisher=replace(self.publisher(execution, epoch, watermark_us), plan=self._aggregation.placed(place)),
            blocks=reported_heads(written),
            bits=self._bits,
            owners=self._owners,
            transport=self._conf.transport,
            timeout_seconds=self._conf.agent_call_timeout,
        )
        owned = run_numbered(execution.session, self._owners, aggregate)
        self.shuffled = dict(sum((shuffled for _, shuffled in owned), Counter[str]()))
        return [Receipt.parse(receipt) for receipt, _ in owned]


def ingest_of(
    session: SparkSession,
    plan: OperatorPlan,
    conf: Conf,
    query_id: bytes,
    secret: bytes,
    add_agents: AddAgents,
) -> Ingest:
    """The update of a query by the strategy of its configuration; rows of a join are kept as they come by either."""
    if conf.strategy == "repartition" and plan.may_repartition:
        return Repartition(session, plan.spec, conf, query_id, secret, add_agents)
    return Ingest(session, plan.spec, conf, query_id, secret)
