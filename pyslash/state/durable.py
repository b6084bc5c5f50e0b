"""The durable state of a query: which files hold it, when they are rewritten, and when they are deleted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from pyslash.errors import CheckpointError
from pyslash.plan.change.identity import PlanIdentity
from pyslash.state.files.block_file import decode, write
from pyslash.state.files.directory import BlockDirectory, BlockFile, run_of
from pyslash.state.files.small import not_dwarfing
from pyslash.state.replan import replanned
from pyslash.units import BEFORE_ALL_PANES, NO_EPOCH, Epoch, Run

# An agent's files are replaced by a snapshot once they are this many and as large as its last snapshot: a restore then
# reads at most about twice the live state, and a byte is written about twice.
MOST_FILES = 8
# So many small ones between two snapshots become one, of no more bytes than these, which an agent has in memory for it:
# who reads the state, or restores it, opens few.
MOST_SMALL = 16
_FOLDED_BYTES = 256 << 20
# Snapshots are written beside epochs. Of an agent that could not, or where runs end before an epoch can name one, an
# epoch has it written, once there are so many times as many files.
_AT_LAST = 8
# Files that were replaced stay for so many seconds: a read of the state of a query that runs has a manifest first, and
# opens its files one after the other.
KEPT_SECONDS = 30


@dataclass(frozen=True)
class Replacement:
    """A file that stands for others of its holder, once a manifest names it: all as of an epoch, or some `names`.

    `since`: how often epochs had written all of that holder's state when it was begun: what came since has the same.
    """

    file: BlockFile
    epoch: Epoch
    since: int
    names: frozenset[str] | None = None

    def replaces(self, other: BlockFile) -> bool:
        """Whether it has what this one has."""
        if other.holder != self.file.holder:
            return False
        return other.epoch <= self.epoch if self.names is None else other.name in self.names


class DurableState:
    """The files that together are the state as of the last epoch, each with the agent that holds its blocks."""

    def __init__(
        self, directory: BlockDirectory, files: list[BlockFile], seconds: Callable[[], float] = time.monotonic
    ) -> None:
        """`seconds`: a clock."""
        self.directory = directory
        self.files = files
        # Of holders; and those of them that the epoch under way has taken.
        self._ready: dict[str, Replacement] = {}
        self._offered: dict[str, Replacement] = {}
        self.under_way = ""  # the agent that writes a file beside epochs
        self.refused: set[str] = set()  # agents that could not write a snapshot beside epochs
        self._has_logged = False  # an epoch of this run
        self._rewritten: Counter[str] = Counter()  # by holder, snapshots that epochs have written
        self._rewriting: set[str] = set()  # holders of which the epoch under way has
        self.first_live_pane = self._offered_pane = BEFORE_ALL_PANES  # of the last epoch that was logged; under way
        self._obsolete: dict[str, float] = {}  # of files that no manifest needs, since when
        self._seconds = seconds
        self._replanned: set[str] = set()  # files of the query before it was changed, until a manifest has the new ones
        self._made: set[str] = set()  # by `replan`, until a manifest may have come to name them

    def want_snapshots(self) -> list[str]:
        """Agents of which a file should hold all of their state."""
        return [holder for holder in self._with_files(MOST_FILES) if holder not in self.refused]

    def need_snapshots(self) -> list[str]:
        """Agents whose next file has to, as no snapshot comes: they have refused one, or the run begins with files of
        many runs, of one epoch each (`Trigger.AvailableNow`). Where one is merely late, no epoch waits for it.
        """
        refused = {holder for holder in self._with_files(_AT_LAST * MOST_FILES) if holder in self.refused}
        return sorted(refused if self._has_logged else refused | self._of_many_runs())

    def _of_many_runs(self) -> set[str]:
        """Agents with files of so many runs: each has read all of the state, so one of as many may write it."""
        runs: dict[str, set[Run | None]] = {}
        for file in self.files:
            if not file.snapshot:
                runs.setdefault(file.holder, set()).add(run_of(file.name))
        return {holder for holder, of in runs.items() if len(of) >= _AT_LAST * MOST_FILES}

    def _with_files(self, number: int) -> list[str]:
        """Agents that have so many, with enough in them that no snapshot has, and nothing on its way."""
        own: dict[str, list[BlockFile]] = {}
        for file in self.files:
            own.setdefault(file.holder, []).append(file)
        return [
            holder
            for holder, held in own.items()
            if len(held) >= number
            and sum(file.bytes for file in held) >= 2 * sum(file.bytes for file in held if file.snapshot)
            and holder not in self._ready
            and holder != self.under_way
        ]

    def want_folds(self) -> dict[str, list[BlockFile]]:
        """Of agents, small files that one should stand for."""
        newest = max((file.epoch for file in self.files), default=NO_EPOCH)
        small: dict[str, list[BlockFile]] = {}
        for file in sorted(self.files, key=lambda file: file.bytes):
            # What the newest epoch has changed is read again by a query that starts again.
            if not file.snapshot and file.epoch < newest and file.holder not in self._ready:
                small.setdefault(file.holder, []).append(file)
        chosen = {holder: not_dwarfing(_within(files), lambda file: file.bytes) for holder, files in small.items()}
        return {holder: files for holder, files in chosen.items() if len(files) >= MOST_SMALL}

    def replace(self, one: Replacement) -> None:
        """There is a file that stands for others; the next epoch that is logged names it."""
        self._ready[one.file.holder] = one

    def with_epoch(self, added: list[BlockFile], first_live_pane: int) -> list[BlockFile]:
        """The files after an epoch has added its own, without those that snapshots replace and those with dead panes
        only.
        """
        self._offered_pane = first_live_pane
        self._made.clear()
        replaced = self._rewriting = {file.holder for file in added if file.snapshot}
        self._offered = dict(self._ready)
        ready = [
            one
            for holder, one in self._offered.items()
            if holder not in replaced and one.since == self.rewritten(holder)
        ]
        kept = [
            file for file in self.files if file.holder not in replaced and not any(one.replaces(file) for one in ready)
        ]
        kept += [one.file for one in ready]
        return [*(file for file in kept if file.last_pane >= first_live_pane), *added]

    def rewritten(self, holder: str) -> int:
        """How often epochs have written all of an agent's state so far."""
        return self._rewritten[holder]

    def logged(self, files: list[BlockFile]) -> None:
        """A manifest now names these files; `clean` deletes the others, once Spark has logged its epoch."""
        self._has_logged = True
        before = {file.name for file in self.files} | self._replanned
        before |= {one.file.name for one in self._offered.values()}
        self._replanned.clear()
        for holder, one in self._offered.items():
            if self._ready.get(holder) is one:
                del self._ready[holder]
        self._offered = {}
        self._rewritten.update(self._rewriting)
        self._rewriting = set()
        self.first_live_pane = self._offered_pane
        self._obsolete |= dict.fromkeys(before - {file.name for file in files}, self._seconds())
        self.files = files

    def replan(self, before: PlanIdentity, now: PlanIdentity, epoch: Epoch, run: Run) -> None:
        """Rewrite the files for a query with other aggregates, one after the other. The old files stay for now.

        Raises:
            CheckpointError, CorruptBlockError: a file cannot be read or written, or is not what its manifest says.
        """
        written = []
        for index, file in enumerate(self.files):
            blocks = decode(self.directory.read(file), file.name)
            changed = [replanned(block, before, now) for block in blocks if block.segments]
            name = f"{epoch}-{run}-replanned-{index}.arrow"
            self._made.add(name)
            size, crc = self.directory.write(name, partial(write, now.text, changed))
            written.append(replace(file, name=name, bytes=size, crc=crc))
        self._replanned = {file.name for file in self.files}
        self.files = written

    def forget_replanned(self) -> None:
        """The run is over. What it has rewritten is deleted, unless a manifest may have come to name it."""
        with suppress(CheckpointError):  # a later run sweeps it
            self.directory.delete(self._made)

    def assign(self, holders: dict[str, str]) -> None:
        """Blocks of a file (by name) are held by this agent from now on."""
        self.files = [replace(file, holder=holders[file.name]) for file in self.files]

    def clean(self) -> None:
        """Spark has logged the last epoch, so the query no longer needs the files that it replaced."""
        until = self._seconds() - KEPT_SECONDS
        due = {name for name, since in self._obsolete.items() if since <= until}
        self.directory.delete(due)
        for name in due:
            del self._obsolete[name]

    def sweep(self, named: set[str], run: Run) -> None:
        """Delete the files that earlier runs left without a manifest.

        Call it once this run has created a manifest: a slow earlier driver can then no longer create a manifest that
        names one of these files. Files of later runs are left alone.
        """
        unnamed = self.directory.names() - named
        self.directory.delete({name for name in unnamed if (by := run_of(name)) is not None and by < run})


def _within(files: list[BlockFile]) -> list[BlockFile]:
    """The first of them, of `_FOLDED_BYTES` together."""
    sizes = accumulate(file.bytes for file in files)
    return [file for file, size in zip(files, sizes, strict=True) if size <= _FOLDED_BYTES]


def shares(files: list[BlockFile], agents: list[str]) -> dict[str, list[BlockFile]]:
    """Files for each agent, about the same number of bytes each.

    >>> files = [BlockFile(name, size, 0, 0, "", False) for name, size in [("a", 1), ("b", 5), ("c", 3)]]
    >>> {agent: [file.name for file in share] for agent, share in shares(files, ["x", "y"]).items()}
    {'x': ['b'], 'y': ['c', 'a']}
    """
    given: dict[str, list[BlockFile]] = {agent: [] for agent in agents}
    for file in sorted(files, key=lambda file: -file.bytes):
        min(given.values(), key=lambda share: sum(one.bytes for one in share)).append(file)
    return given
