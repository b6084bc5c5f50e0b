"""Manifests: a small file for each epoch, under the query's checkpoint, that names the blocks of the epoch.

A manifest is created exclusively and atomically. Once it exists the epoch's rows are fixed: a replay reads it instead
of updating again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from pyslash.errors import (
    CheckpointError,
    FencedError,
    LateManifestError,
    PlanMismatchError,
    RewoundCheckpointError,
    StateLostError,
)
from pyslash.plan.change.identity import PlanIdentity, differences
from pyslash.plan.spec import PlanSpec
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.files.checkpoint_files import CheckpointFiles
from pyslash.state.files.directory import BlockFile, numbers
from pyslash.state.manifest_form import OPTIONAL, what_is_wrong
from pyslash.state.run_number import next_run
from pyslash.state.version import VersionStep
from pyslash.units import BEFORE_ALL_RUNS, ArenaOffset, Epoch, Micros, Run

FORMAT = 6
_SEED = FORMAT  # where its checksum begins: a damaged number must not make another format of it
MANIFESTS = "slash/manifests"  # the folder in the checkpoint
RUNS = "slash/runs"
BLOCKS = "slash/blocks"
FILES_SKIPPED = "slash/files-skipped"  # which `BacklogFiles.java` makes
# Below the checkpoint: where operators but the first keep their state, each as the first does in the checkpoint itself.
OPERATOR = "slash/operator-{}"
ADOPTED = "adopted by run "  # begins `before` of a manifest of state that was plain Spark's
# As many as Spark keeps of its own logs by default (spark.sql.streaming.minBatchesToRetain).
RETAINED = 100


@dataclass(frozen=True)
class Manifest:
    """An epoch: its blocks and the watermarks between which its windows close.

    `plan`, `columns`, `time`, `since`, `is_adopted`, `row_schemas`, `types` and `key_order` are those of the query's
    `PlanIdentity`. `offsets` and `timestamp_ms` are what Spark's offset log says of the batch, `input` is the
    `fingerprint` of the operator: together they tell which rows it had.
    Windows that ended in (`emitted_us`, `watermark_us`] are emitted in it. `times` has, for each of Spark's watermark
    operators, count, least, greatest and mean of its event times in milliseconds.
    `run` is the run of the query that wrote it (`run_number`). `blocks` are (agent incarnation, offset in that agent's
    arena, CRC of its head); `agents` are the descriptors of every agent that holds state of the query as of this epoch,
    so that a restarted query finds them again. `files` hold the whole state as of this epoch, if it is `in_checkpoint`.
    `standbys` maps agents (incarnations) to those that have all of their blocks as of this epoch in memory.
    `held` maps agents to the last pane that they hold a block of (microseconds) and the bytes of their blocks; an agent
    that is not in it holds nothing. `before` is the `version` before this epoch. `pane` is, of sessions, the one that
    holds all that are open. `owed_times` are, as `times`, of rows that were read before others that Spark's watermark
    waits for.
    """

    epoch: Epoch
    run: Run
    plan: str
    columns: list[str]
    time: str
    offsets: str
    timestamp_ms: int
    input: str
    emitted_us: Micros
    watermark_us: Micros
    rows: int
    late_rows: int
    times: list[tuple[int, int, int, float]]
    blocks: list[tuple[str, ArenaOffset, int]]
    agents: list[AgentDescriptor]
    files: list[BlockFile]
    in_checkpoint: bool = True
    standbys: dict[str, str] = field(default_factory=dict)
    before: str = ""
    pane: int = 0
    since: list[int] = field(default_factory=list)
    is_adopted: bool = False
    held: dict[str, tuple[int, int]] | None = None
    owed_times: list[tuple[int, int, int, float]] = field(default_factory=list)
    row_schemas: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    key_order: list[int] = field(default_factory=list)

    @property
    def version(self) -> str:
        """A unique name of the state as of this epoch. Without new blocks it is the name of the state before."""
        if not self.blocks:
            return self.before
        return hashlib.sha256(json.dumps([self.before, self.epoch, self.run, self.blocks]).encode()).hexdigest()

    @property
    def is_of_spark(self) -> bool:
        """Whether the state before it was plain Spark's, or its own is."""
        return self.before.startswith(ADOPTED)

    @property
    def step(self) -> VersionStep:
        """What the epoch makes of the state."""
        return VersionStep(self.before, self.version)

    @property
    def evicting_step(self) -> VersionStep:
        """The same where each epoch makes another state, if only because it evicts.

        Without new blocks, and by the same watermark, nothing may be emitted again.
        """
        return VersionStep(
            f"{self.before} {self.epoch - 1} {self.emitted_us}", f"{self.version} {self.epoch} {self.watermark_us}"
        )

    @property
    def identity(self) -> PlanIdentity:
        """Of the query that wrote it."""
        return PlanIdentity(
            PlanSpec.decode(self.plan),
            tuple(self.columns),
            self.time,
            tuple(self.since),
            self.is_adopted,
            tuple(self.row_schemas),
            tuple(self.types),
            tuple(self.key_order),
        )

    def encode(self) -> bytes:
        """JSON on one line, behind a line with the format and a checksum."""
        # Not by `asdict`, which copies every list and dict of them first.
        told = {name: value for name, value in vars(self).items() if value or name not in OPTIONAL}
        body = json.dumps(told, default=vars, sort_keys=True).encode()
        return f"pyslash-manifest {FORMAT} {zlib.crc32(body, _SEED):08x}\n".encode() + body + b"\n"

    @classmethod
    def decode(cls, data: bytes, name: str, epoch: Epoch | None = None) -> Manifest:
        """Inverse of `encode`, of a file that is to be the manifest of this epoch.

        Raises:
            StateLostError: torn, truncated, of another format or epoch, its checksum does not match, or its fields are
                not those of a manifest.
        """
        head, _, body = data.partition(b"\n")
        words = head.split()
        body = body.rstrip(b"\n")
        if len(words) != 3 or words[:2] != [b"pyslash-manifest", b"%d" % FORMAT]:
            raise StateLostError(
                f"{name} is not a manifest of format {FORMAT}. A checkpoint of another version of pyslash continues "
                "with that version; give the query a new checkpointLocation to use this one"
            )
        if words[2] != f"{zlib.crc32(body, _SEED):08x}".encode():
            raise StateLostError(f"the checksum of {name} does not match its content")
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise StateLostError(f"{name} is not JSON behind its checksum: {error}") from None
        if wrong := what_is_wrong(fields):
            raise StateLostError(f"{name} is no manifest, though its checksum matches: {wrong}")
        if epoch is not None and fields["epoch"] != epoch:
            raise StateLostError(f"{name} is the manifest of epoch {fields['epoch']}, under the name of another")
        for name in {"times", "owed_times"} & {*fields}:
            fields[name] = [tuple(times) for times in fields[name]]
        fields["blocks"] = [(incarnation, offset, head) for incarnation, offset, head in fields["blocks"]]
        fields["agents"] = [AgentDescriptor.from_record(agent) for agent in fields["agents"]]
        if fields.get("held") is not None:
            fields["held"] = {holder: (last, size) for holder, (last, size) in fields["held"].items()}
        fields["files"] = [BlockFile(**file) for file in fields["files"]]
        return cls(**fields)


class ManifestLog:
    """The manifests of one checkpoint, as one driver writes them."""

    def __init__(
        self, files: CheckpointFiles, runs: CheckpointFiles, driver: str = "", next_run: Callable[[Run], Run] = next_run
    ) -> None:
        """`driver` stands in its runs' files, and tells them from another driver's; without it, it gets a name.

        `next_run` gives a run's number, above another one.
        """
        self._files = files
        self._runs = runs
        self._driver = (driver or uuid4().hex).encode()
        self._next_run = next_run
        self.run = self.run_before = BEFORE_ALL_RUNS

    def epochs(self) -> list[Epoch]:
        """Epochs that have a manifest, ascending.

        Raises:
            CheckpointError: the checkpoint cannot be reached.
        """
        return [Epoch(number) for number in _numbers(self._files)]

    def take_over(self, held: Run = BEFORE_ALL_RUNS) -> Run:
        """Begin a run of the query, with a number above all earlier ones: a driver of an earlier run is fenced.

        `held` is the run that this driver has had so far, where it begins again. `run_before` is from then on the
        newest one that the checkpoint knew, 0 if none.

        Raises:
            FencedError: another driver has taken the query over since, or begins at this very moment.
            CheckpointError: the number cannot be written.
        """
        earlier = _numbers(self._runs)
        before = Run(max(earlier, default=BEFORE_ALL_RUNS))
        self._check_held(held, before)
        run = self._next_run(max(held, before))
        try:
            self._create(self._runs, str(run), self._driver)
        except FileExistsError as error:
            raise FencedError(f"another driver has begun run {run} of this query; stop one of them") from error
        except CheckpointError:
            self._check_newest(run)  # a later one has deleted ours
            raise
        self._check_newest(run)
        with _reaching(self._runs.path("")):
            for number in earlier:
                self._runs.delete(str(number))
        self.run, self.run_before = run, before
        return run

    def check_held(self, held: Run) -> None:
        """Pass if no other driver has taken the query over from this run.

        Raises:
            FencedError: one has.
            CheckpointError: the checkpoint cannot be reached.
        """
        self._check_held(held, Run(max(_numbers(self._runs), default=BEFORE_ALL_RUNS)))

    def _check_held(self, held: Run, newest: Run) -> None:
        if held and newest > held and not self._is_own(newest):
            raise _replaced(held, newest)

    def look(self, epoch: Epoch) -> Manifest | None:
        """The manifest of an epoch, of whatever query, or None.

        Raises:
            StateLostError: it cannot be read.
        """
        path = self._files.path(str(epoch))
        with _reaching(path):
            data = self._files.read(str(epoch))
        return None if data is None else Manifest.decode(data, path, epoch)

    def withdraw(self, epoch: Epoch) -> None:
        """Delete the manifest of an epoch that Spark has not logged: the epoch's rows will be read again.

        Raises:
            CheckpointError: it cannot be deleted.
        """
        with _reaching(self._files.path(str(epoch))):
            self._files.delete(str(epoch))

    def read(self, epoch: Epoch, plan: PlanIdentity) -> Manifest | None:
        """The manifest of an epoch, or None.

        Raises:
            PlanMismatchError: it was written for another plan.
            StateLostError: it cannot be read.
        """
        manifest = self.look(epoch)
        if manifest is None:
            return None
        changed = differences(manifest.identity, plan)
        if changed:
            listed = "\n  ".join(changed)
            raise PlanMismatchError(
                f"the query is not the one that {self._files.path(str(epoch))} was written for:\n  {listed}\nIts state "
                "would not be that of this query. Run the query as it was, or give it a new checkpointLocation."
            )
        return manifest

    def create(self, manifest: Manifest) -> None:
        """Write an epoch's manifest.

        Raises:
            FencedError: another driver has taken the query over.
            RewoundCheckpointError: the checkpoint no longer knows this run.
            LateManifestError: one that this run has replaced has written the epoch.
            CheckpointError: it cannot be written.
        """
        newest = self._check_newest(self.run)
        if newest < self.run:
            raise RewoundCheckpointError(
                f"{self._runs.path(str(self.run))}, the file of this run of the query, is gone: the checkpoint was put "
                "back, or deleted, while the query was running. Start the query again; it continues from what is there "
                "now. Stop a query before you put its checkpoint back"
            )
        try:
            self._create(self._files, str(manifest.epoch), manifest.encode())
        except FileExistsError as error:
            path = self._files.path(str(manifest.epoch))
            if self.run and max(_numbers(self._runs), default=0) == self.run:
                raise LateManifestError(f"{path} was written by a driver that run {self.run} has replaced") from error
            raise FencedError(
                f"{path} has been written since this query began the epoch: another driver runs on the same "
                "checkpoint. Stop one of them, or give each its own checkpointLocation."
            ) from error

    def _check_newest(self, run: Run) -> Run:
        """The newest run that the checkpoint knows.

        Raises:
            FencedError: it is later than this one.
        """
        newest = Run(max(_numbers(self._runs), default=BEFORE_ALL_RUNS))
        if newest > run:
            raise _replaced(run, newest)
        return newest

    def _is_own(self, run: Run) -> bool:
        """Whether this driver has begun the run, even if the write of its number seemed to fail."""
        with _reaching(self._runs.path(str(run))):
            return self._runs.read(str(run)) == self._driver

    @staticmethod
    def _create(files: CheckpointFiles, name: str, content: bytes) -> None:
        """Create a file and read it back: a store may tear or lose it, and still report success."""
        path = files.path(name)
        with _reaching(path):
            files.create(name, content)
            found = files.read(name)
            if found == content:
                return
            if found is not None and not content.startswith(found):
                raise FileExistsError(path)  # ours was never there, and another driver's is by now
            files.delete(name)
        held = "nothing is there" if found is None else f"only {len(found)} bytes are there"
        raise CheckpointError(
            f"{path}, {len(content)} bytes, was written without an error, but {held}. The batch fails before its "
            "commit; check the store that the checkpoint is on"
        )

    def purge(self, epoch: Epoch) -> None:
        """Delete the manifest that falls out of retention when `epoch` begins."""
        if epoch >= RETAINED:
            with _reaching(self._files.path(str(epoch - RETAINED))):
                self._files.delete(str(epoch - RETAINED))


def _numbers(files: CheckpointFiles) -> list[int]:
    with _reaching(files.path("")):
        return numbers(files.names())


def _replaced(run: Run, newest: Run) -> FencedError:
    return FencedError(f"run {run} of the query was replaced by run {newest}, in another driver; stop this one")


@contextmanager
def _reaching(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be reached: {error}. Once the cause is gone the query can be started again"
        ) from error
