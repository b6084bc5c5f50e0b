"""Files that stand for others, written beside epochs: the checkpoint of an epoch costs what that has changed.

A snapshot stands for all that its agent has written. Between two of them, one file stands for many small ones.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from uuid import uuid4

from pyslash.cluster.agent_group import AgentGroup
from pyslash.errors import SlashError
from pyslash.protocol.messages import FoldFiles, Snapshot
from pyslash.state.durable import DurableState, Replacement
from pyslash.state.files.directory import BlockFile
from pyslash.units import Epoch, Run

logger = logging.getLogger("pyslash")
# A store may be slower than the pace that is asked for. Nobody waits for these calls, but one that hangs is to end.
_LEAST_BYTES_A_SECOND = 4 << 20
# A run may last for months: one failure is none of the agent's, or of its store.
_MOST_FAILURES = 3


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
        self._failures = Counter[tuple[str, str]]()  # of what, by which agent, one after the other
        self._is_over = False

    def close(self) -> None:
        """The run is over. What is under way is given up: nothing is written to the checkpoint any more."""
        self._is_over = True
        holder = self._durable.under_way
        if holder in self._group.names:
            with suppress(SlashError), self._group.another(holder) as client:
                client.end_snapshots(self._run)

    @property
    def are_due(self) -> bool:
        """Whether files of an agent should be replaced by one."""
        return bool(self._due() or self._folds_due())

    def step(self) -> bool:
        """Write one, beside the query's own thread. Returns whether there are more."""
        rewritten = self._durable.rewritten  # looked at before the files are
        since = {holder: rewritten(holder) for holder in self._group.names}
        due, folds = self._due(), self._folds_due()
        holder = next(iter([*due, *folds]), None)
        if holder is not None:
            self._durable.under_way = holder
            try:
                if self._is_over:
                    pass  # it ended before it could be told of this one
                elif due:
                    self._write(holder, since[holder])
                else:
                    self._fold(holder, folds[holder], since[holder])
            finally:
                self._durable.under_way = ""
        return len({*due, *folds}) > 1

    def warn(self, error: Exception) -> None:
        """Tell of one that has failed, unless it is over."""
        if not self._is_over:
            logger.warning("a snapshot could not be written beside epochs: %s", error)

    def _due(self) -> list[str]:
        if self._is_over:
            return []
        return [holder for holder in self._durable.want_snapshots() if holder in self._group.names]

    def _folds_due(self) -> dict[str, list[BlockFile]]:
        if self._is_over:
            return {}
        held = {name for name in self._group.names if self._failures["fold", name] < _MOST_FAILURES}
        return {holder: files for holder, files in self._durable.want_folds().items() if holder in held}

    def _fold(self, holder: str, files: list[BlockFile], since: int) -> None:
        last = max(file.epoch for file in files)
        name = f"{last}-{self._run}-{uuid4().hex}.arrow"
        listed, pane = [[file.name, file.bytes, file.crc] for file in files], self._durable.first_live_pane
        location = self._durable.directory.location
        request = FoldFiles(self._plan, self._run, location, listed, name, pane, self._rate)
        try:
            with self._group.another(holder) as client:
                most = sum(file.bytes for file in files)
                written = client.fold_files(request, self._most_seconds(most))
        except SlashError as error:
            # They are as good as before, and a snapshot replaces them in the end.
            self._failures["fold", holder] += 1
            if not self._is_over:
                logger.warning("small files of the checkpoint could not be folded into one: %s", error)
            return
        del self._failures["fold", holder]
        made = BlockFile(name, **written, holder=holder, snapshot=False)
        self._durable.replace(Replacement(made, last, since, frozenset(file.name for file in files)))

    def _most_seconds(self, size: int) -> float:
        return self._timeout + size / min(self._rate, _LEAST_BYTES_A_SECOND)

    def _write(self, holder: str, since: int) -> None:
        last = max(file.epoch for file in self._durable.files)
        name = f"{last}-{self._run}-snapshot-{uuid4().hex}.arrow"
        request = Snapshot(self._plan, self._run, self._durable.directory.location, name, self._rate)
        most = sum(file.bytes for file in self._durable.files if file.holder == holder)
        try:
            # By a connection of its own: epochs do not wait for it.
            with self._group.another(holder) as client:
                written = client.snapshot(request, self._most_seconds(most))
        except SlashError as error:
            self._failures["snapshot", holder] += 1
            if self._failures["snapshot", holder] == _MOST_FAILURES:
                self._durable.refused.add(holder)  # an epoch writes it, and fails if it cannot
            self.warn(error)
            return
        del self._failures["snapshot", holder]
        epoch = Epoch(written.pop("epoch"))
        self._durable.replace(Replacement(BlockFile(name, **written, holder=holder, snapshot=True), epoch, since))
