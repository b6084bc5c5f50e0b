"""What an epoch has done, as its manifest records it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyslash.driver.backlog import told_times
from pyslash.operators.base import EpochInputs, Update
from pyslash.plan.cut import EventTimes
from pyslash.plan.operator import OperatorPlan
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.files.block_head import head_crc
from pyslash.state.files.directory import BlockFile
from pyslash.state.manifest import Manifest
from pyslash.state.receipt import Receipt
from pyslash.state.version import StateVersion
from pyslash.units import Run


@dataclass(frozen=True)
class Stored:
    """Where an epoch's state is besides its agents' memory: the files of the whole state, and who has replicas."""

    files: list[BlockFile] = field(default_factory=list)
    standbys: dict[str, str] = field(default_factory=dict)
    checkpoint_bytes: int = 0
    replica_bytes: int = 0


@dataclass(frozen=True)
class EpochRecord:
    """An epoch whose state is stored.

    `rows` and `late_rows` are those that the operator took, `times` what Spark is told of their event times, and
    `owed_times` what it will be.
    `blocks` are the epoch's, and `agents` all that hold state by now.
    """

    inputs: EpochInputs
    rows: int
    late_rows: int
    times: list[EventTimes]
    owed_times: list[EventTimes]
    blocks: list[Receipt]
    agents: list[AgentDescriptor]
    stored: Stored

    @classmethod
    def of(cls, inputs: EpochInputs, update: Update, agents: list[AgentDescriptor], stored: Stored) -> EpochRecord:
        """`agents`: those that the query has had before the epoch."""
        cut = inputs.batch.cut
        known = {agent.incarnation: agent for agent in agents}
        times, owed_times = told_times(cut, inputs.batch.backlog, inputs.last)
        known.update({receipt.agent.incarnation: receipt.agent for receipt in update.written})
        return cls(
            inputs=inputs,
            rows=sum(receipt.head.rows for receipt in update.rows) + update.counted + cut.late_rows,
            late_rows=sum(receipt.head.late_rows for receipt in update.rows) + update.late + cut.late_rows,
            times=times,
            owed_times=owed_times,
            blocks=update.written,
            agents=list(known.values()),
            stored=stored,
        )

    def manifest(self, plan: OperatorPlan, run: Run, before: StateVersion, in_checkpoint: bool) -> Manifest:
        """The manifest of the epoch.

        Args:
            plan: the operator's.
            run: of the query.
            before: the state before the epoch.
            in_checkpoint: whether the files have the whole state.
        """
        inputs, identity = self.inputs, plan.identity
        return Manifest(
            epoch=inputs.epoch,
            run=run,
            plan=plan.text,
            columns=list(identity.columns),
            time=identity.time,
            since=list(plan.first_batch),
            is_adopted=plan.is_adopted,
            row_schemas=list(identity.row_schemas),
            types=list(identity.types),
            key_order=list(identity.key_order),
            offsets=inputs.offsets.sources,
            timestamp_ms=inputs.offsets.timestamp_ms,
            input=plan.fingerprint,
            emitted_us=inputs.watermarks.evicted_us,
            watermark_us=inputs.watermarks.closing_us,
            rows=self.rows,
            late_rows=self.late_rows,
            times=self.times,
            owed_times=self.owed_times,
            blocks=[
                (receipt.agent.incarnation, receipt.head.arena_offset, head_crc(receipt.raw_head))
                for receipt in self.blocks
            ],
            agents=self.agents,
            files=self.stored.files,
            in_checkpoint=in_checkpoint,
            standbys=self.stored.standbys,
            before=before.name,
            pane=inputs.pane,
            held=before.held_with(self.blocks),
        )
