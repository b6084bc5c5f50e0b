"""Backfills: state that a second run of a query's job has made of other input, to become part of the query's own.

    CHECKPOINT/slash/backfills/NAME/
      slash/manifests/N, slash/blocks, ...   the state, as a savepoint has it
      backfill.json                          is written last: a folder without it is no backfill
      taken/E-R                              run R of the query was about to log epoch E with it
      refused                                why the query does not take it

An epoch that takes a backfill has its blocks as it has those of its own rows, so it is part of the state as soon as the
epoch's manifest is there. Which manifest that is the records tell: the last run that has left one has taken the
backfill, if that epoch's manifest is its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from pyslash.errors import StateLostError
from pyslash.state.manifest import BLOCKS, Manifest
from pyslash.state.savepoint import BACKFILL, BACKFILLS, TAKEN, Look, check_name, copied, is_name, taken_in
from pyslash.state.stored import StoredState
from pyslash.state.tree import Tree
from pyslash.units import Epoch, Micros, Run

_REFUSED = "refused"


@dataclass(frozen=True)
class Backfill:
    """A name, when it was `made` (ISO 8601), and, for each stateful operator of the query, `final_by`: so many groups
    come too late for it once its watermark is there (microseconds). A group counts for each executor that has rows of
    it.

    `late` says what becomes of groups that come too late when the query takes it: the query drops them, or refuses the
    backfill as a whole.
    """

    name: str
    late: str
    final_by: list[list[tuple[int, int]]]
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="microseconds"))

    @property
    def groups(self) -> int:
        """Those of the operator that takes them, the first."""
        return sum(groups for _, groups in self.final_by[0])

    def late_groups(self, watermarks_us: Sequence[Micros]) -> int:
        """Those that come too late once the operators' watermarks are there; of the first operator where it has some:
        those above get only what it emits.
        """
        late = (
            sum(groups for by_us, groups in final_by if by_us <= watermark_us)
            for final_by, watermark_us in zip(self.final_by, watermarks_us, strict=False)
        )
        return next(filter(None, late), 0)


class Backfills:
    """Those of one query."""

    def __init__(self, checkpoint: str) -> None:
        """Raises:
        CheckpointError: the checkpoint is on no file system that pyarrow has.
        """
        self._tree = Tree(checkpoint)

    @property
    def is_local(self) -> bool:
        """Whether a look at them costs next to nothing."""
        return self._tree.is_local

    def location(self, name: str) -> str:
        """Where a backfill is, or may be.

        Raises:
            InvalidInputError: it is no name.
        """
        check_name(name, "backfill")
        return f"{self._tree.location}/{BACKFILLS}/{name}"

    def new_run(self, name: str) -> str:
        """Where a run that makes a backfill may have its checkpoint, and no other one that makes the same."""
        place, _, _ = self.location(name).rpartition("/")
        return f"{place}/.{name}.run-{uuid4().hex}"

    def all(self) -> list[Backfill]:
        """Every one, the oldest first.

        Raises:
            CheckpointError: the checkpoint cannot be read.
            StateLostError: a backfill is not what was written.
        """
        return _by_age([self.read(name) for name in self._names() if self.has(name)])

    def _names(self) -> list[str]:
        return list(filter(is_name, self._tree.folders(BACKFILLS)))

    def has(self, name: str) -> bool:
        """Whether there is one of this name."""
        check_name(name, "backfill")
        return self._tree.has(f"{BACKFILLS}/{name}/{BACKFILL}")

    def read(self, name: str) -> Backfill:
        """The one of this name.

        Raises:
            CheckpointError: there is none, or it cannot be read.
            StateLostError: it is not what was written.
        """
        path = f"{BACKFILLS}/{name}/{BACKFILL}"
        try:
            fields = json.loads(self._tree.read(path))
            if fields["name"] != name:
                raise ValueError(f"it is the backfill {fields['name']}, copied")
            final_by = [[(int(by), int(groups)) for by, groups in one] for one in fields["final_by"]]
            return Backfill(**{**fields, "final_by": final_by})
        except (ValueError, TypeError, KeyError) as error:
            raise StateLostError(f"{self._tree.location}/{path} is not what was written: {error}") from None

    def add(self, made: Backfill, run: str) -> None:
        """Make a backfill of the state that is in the checkpoint of a run; what other runs for it have left, goes.

        Raises:
            InvalidInputError: there is one of this name.
            CheckpointError: a file cannot be read or written.
            StateLostError: the run has left no state in files.
        """
        source, target = Tree(run), Tree(self.location(made.name))
        if not target.has(BACKFILL):
            target.delete()  # of one that was killed
        with target.made() as tree:
            copied(source, tree)
            tree.write(BACKFILL, json.dumps(asdict(made)).encode())
        for left in self._tree.folders(BACKFILLS, hidden=True):
            if left.startswith(f".{made.name}.run"):  # a name has no point
                Tree(f"{self._tree.location}/{BACKFILLS}/{left}").delete()

    def state(self, name: str) -> tuple[str, Manifest]:
        """The folder of a backfill's block files, and the manifest that names them.

        Raises:
            CheckpointError, StateLostError: they are not there, or not what was written.
        """
        state = StoredState.at(self.location(name))
        return f"{state.location}/{BLOCKS}", state.manifest()

    def watermarks_above(self) -> list[Micros]:
        """Those by which the operators above the one that takes backfills have emitted, and forgotten (microseconds).

        Raises:
            CheckpointError, StateLostError: the state of one cannot be read.
        """
        above = StoredState.of_operators(self._tree.location)[1:]
        return [state.manifest().watermark_us for state in above]

    def due(self, last: Manifest | None, look: Look, settled: set[str]) -> list[Backfill]:
        """Those that are not part of the state as of a manifest, and that the query has not refused, the oldest first.

        The names of the others are added to `settled`, and are not looked at again while their folders are there.
        """
        names = self._names()
        settled.intersection_update(names)
        found = []
        for name in names:
            if name in settled or not self.has(name):
                continue
            if self.refusal(name) is None and self.taken_in(name, last, look) is None:
                found.append(self.read(name))
            else:
                settled.add(name)
        return _by_age(found)

    def taken_in(self, name: str, last: Manifest | None, look: Look) -> Epoch | None:
        """The epoch that has made a backfill part of the state as of the manifest `last`; None: it is not."""
        return taken_in(self._tree, name, last, look)

    def take(self, name: str, epoch: Epoch, run: Run) -> None:
        """Note that a run is about to log an epoch with a backfill."""
        path = f"{BACKFILLS}/{name}/{TAKEN}/{epoch}-{run}"
        if not self._tree.has(path):
            self._tree.write(path, b"{}")

    def refuse(self, name: str, why: str) -> None:
        """Note that the query does not take a backfill."""
        self._tree.write(f"{BACKFILLS}/{name}/{_REFUSED}", why.encode())

    def refusal(self, name: str) -> str | None:
        """Why the query does not take a backfill."""
        path = f"{BACKFILLS}/{name}/{_REFUSED}"
        return self._tree.read(path).decode() if self._tree.has(path) else None


def _by_age(found: list[Backfill]) -> list[Backfill]:
    return sorted(found, key=lambda one: (one.made, one.name))
