"""Snapshots of what agents hold, written beside epochs: the checkpoint of an epoch costs what that has changed."""

from __future__ import annotations

import logging
from contextlib import suppress
from uuid import uuid4

from pyslash.cluster.agent_group import AgentGroup
from pyslash.errors import SlashError
from pyslash.protocol.messages import Snapshot
from pyslash.state.durable import DurableState
from pyslash.state.files.directory import BlockFile
from pyslash.units import Epoch, Run

logger = logging.getLogger("pyslash")


class Snapshots:
    """Of one query, in one run."""

    def __init__(
        self,
        group: AgentGroup,
        durable: DurableState,
        plan: str,
        run: Run,
        timeout_seconds: float,
        bytes_per_second: int,
    ) -> None:
        """`timeout_seconds` is for what an agent does besides waiting for its next byte."""
        self._group = group
        self._durable = durable
        self._plan = plan
        self._run = run
        self._timeout = timeout_seconds
        self._rate = bytes_per_second
        self._failed: set[str] = set()
        self._holder: str | None = None  # of the one under way
        self._is_over = False

    def close(self) -> None:
        """The run is over. What is under way is given up: nothing is written to the checkpoint any more."""
        self._is_over = True
        if self._holder in self._group.names:
            with suppress(SlashError), self._group.another(self._holder) as client:
                client.end_snapshots(self._run)

    @property
    def are_due(self) -> bool:
        """Whether an agent's files should be replaced by one."""
        return bool(self._due())

    def step(self) -> bool:
        """Write one, beside the query's own thread. Returns whether there are more."""
        due = self._due()
        if due:
            self._holder = due[0]
            if not self._is_over:
                self._write(due[0])
            self._holder = None
        return len(due) > 1

    def warn(self, error: Exception) -> None:
        """Tell of one that has failed, unless it is over."""
        if not self._is_over:
            logger.warning("a snapshot could not be written beside epochs: %s", error)

    def _due(self) -> list[str]:
        if self._is_over:
            return []
        held = {*self._group.names} - self._failed
        return [holder for holder in self._durable.want_snapshots() if holder in held]

    def _write(self, holder: str) -> None:
        last = max(file.epoch for file in self._durable.files)
        name = f"{last}-{self._run}-snapshot-{uuid4().hex}.arrow"
        request = Snapshot(self._plan, self._run, self._durable.directory.location, name, self._rate)
        most = sum(file.bytes for file in self._durable.files if file.holder == holder)
        try:
            # By a connection of its own: epochs do not wait for it.
            with self._group.another(holder) as client:
                written = client.snapshot(request, self._timeout + most / self._rate)
        except SlashError as error:
            # In the end an epoch writes it, and fails if it cannot.
            self._failed.add(holder)
            self.warn(error)
            return
        epoch = Epoch(written.pop("epoch"))
        self._durable.snapshot(epoch, BlockFile(name, **written, holder=holder, snapshot=True))
