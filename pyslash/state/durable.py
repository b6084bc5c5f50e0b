"""The durable state of a query: which files hold it, when they are rewritten, and when they are deleted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyslash.plan.identity import PlanIdentity
from pyslash.state.block_file import decode, write
from pyslash.state.directory import BlockDirectory, BlockFile, run_of
from pyslash.state.replan import replanned

# An agent's files are replaced by a snapshot once they are this many and as large as its last snapshot: a restore then
# reads at most about twice the live state, and a byte is written about twice.
MOST_FILES = 8


class DurableState:
    """The files that together are the state as of the last epoch, each with the agent that holds its blocks."""

    def __init__(self, directory: BlockDirectory, files: list[BlockFile]) -> None:
        self.directory = directory
        self.files = files
        self._obsolete: set[str] = set()
        self._replanned: set[str] = set()  # files of the query before it was changed, until a manifest has the new ones

    def wants_snapshot(self, holder: str) -> bool:
        """Whether the next file of this agent should hold all of its state."""
        own = [file for file in self.files if file.holder == holder]
        snapshots = sum(file.bytes for file in own if file.snapshot)
        return len(own) >= MOST_FILES and sum(file.bytes for file in own) >= 2 * snapshots

    def with_epoch(self, added: list[BlockFile], first_live_pane: int) -> list[BlockFile]:
        """The files after an epoch has added its own, without those that it replaces and those with dead panes only."""
        replaced = {file.holder for file in added if file.snapshot}
        return [
            *(file for file in self.files if file.last_pane >= first_live_pane and file.holder not in replaced),
            *added,
        ]

    def logged(self, files: list[BlockFile]) -> None:
        """A manifest now names these files; the others are deleted once Spark has logged its epoch."""
        before = {file.name for file in self.files} | self._replanned
        self._obsolete |= before - {file.name for file in files}
        self._replanned.clear()
        self.files = files

    def replan(self, before: PlanIdentity, now: PlanIdentity, epoch: int, run: int) -> None:
        """Rewrite the files for a query with other aggregates, one after the other. The old files stay for now.

        Raises:
            CheckpointError, CorruptBlockError: a file cannot be read or written, or is not what its manifest says.
        """
        written = []
        for index, file in enumerate(self.files):
            blocks = decode(self.directory.read(file), file.name)
            changed = [replanned(block, before, now) for block in blocks if block.segments]
            name = f"{epoch}-{run}-replanned-{index}.arrow"
            size, crc = self.directory.write(name, partial(write, now.text, changed))
            written.append(replace(file, name=name, bytes=size, crc=crc))
        self._replanned = {file.name for file in self.files}
        self.files = written

    def assign(self, holders: dict[str, str]) -> None:
        """Blocks of a file (by name) are held by this agent from now on."""
        self.files = [replace(file, holder=holders[file.name]) for file in self.files]

    def clean(self) -> None:
        """Spark has logged the last epoch, so the files that it replaced are no longer needed."""
        self.directory.delete(self._obsolete)
        self._obsolete.clear()

    def sweep(self, named: set[str], run: int) -> None:
        """Delete the files that earlier runs left without a manifest.

        Call it once this run has created a manifest: a slow earlier driver can then no longer create a manifest that
        names one of these files. Files of later runs are left alone.
        """
        unnamed = self.directory.names() - named
        self.directory.delete({name for name in unnamed if (by := run_of(name)) is not None and by < run})


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
