"""Manifests: one small file an epoch, under the query's checkpoint, that says which blocks the epoch consists of.

A manifest is created exclusively and atomically. Once it exists the epoch's rows are fixed: a replay reads it instead
of updating again.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field

from pyslash.agent.descriptor import AgentDescriptor
from pyslash.checkpoint.directory import BlockFile
from pyslash.errors import FencedError, PlanMismatchError, StateLostError
from pyslash.streaming.checkpoint_files import CheckpointFiles

FORMAT = 3
MANIFESTS = "slash/manifests"  # the folder in the checkpoint
RUNS = "slash/runs"
BLOCKS = "slash/blocks"
# As many as Spark keeps of its own logs by default (spark.sql.streaming.minBatchesToRetain).
RETAINED = 100


@dataclass(frozen=True)
class Manifest:
    """An epoch: its blocks and the watermarks between which its windows close.

    `blocks` are (agent incarnation, offset in that agent's arena); `agents` are the descriptors of every agent that
    holds state of the query as of this epoch, so that a restarted query finds them again. `files` hold the whole state
    as of this epoch, if it is `in_checkpoint`. `standbys` maps agents (incarnations) to those that have all of their
    blocks as of this epoch in memory.
    """

    epoch: int
    plan: str
    emitted_us: int
    watermark_us: int
    rows: int
    late_rows: int
    blocks: list[tuple[str, int]]
    agents: list[AgentDescriptor]
    files: list[BlockFile]
    in_checkpoint: bool = True
    standbys: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON on one line, behind a line with the format and a checksum."""
        body = json.dumps(asdict(self), sort_keys=True).encode()
        return f"pyslash-manifest {FORMAT} {zlib.crc32(body):08x}\n".encode() + body + b"\n"

    @classmethod
    def decode(cls, data: bytes, name: str) -> Manifest:
        """Inverse of `encode`.

        Raises:
            StateLostError: torn, truncated, of another format, or its checksum does not match.
        """
        head, _, body = data.partition(b"\n")
        words = head.split()
        body = body.rstrip(b"\n")
        if len(words) != 3 or words[:2] != [b"pyslash-manifest", str(FORMAT).encode()]:
            raise StateLostError(f"{name} is not a manifest of format {FORMAT}")
        if words[2] != f"{zlib.crc32(body):08x}".encode():
            raise StateLostError(f"the checksum of {name} does not match its content")
        fields = json.loads(body)
        fields["blocks"] = [(incarnation, offset) for incarnation, offset in fields["blocks"]]
        fields["agents"] = [AgentDescriptor(**agent) for agent in fields["agents"]]
        fields["files"] = [BlockFile(**file) for file in fields["files"]]
        return cls(**fields)


class ManifestLog:
    """The manifests of one checkpoint."""

    def __init__(self, files: CheckpointFiles, runs: CheckpointFiles) -> None:
        self._files = files
        self._runs = runs
        self.run = 0

    def epochs(self) -> list[int]:
        """Epochs that have a manifest, ascending."""
        return _numbers(self._files)

    def take_over(self) -> int:
        """Begin a run of the query, with a number above all before: whoever writes for an earlier one is fenced.

        Raises:
            FencedError: another driver begins at this very moment.
        """
        earlier = _numbers(self._runs)
        run = max(earlier, default=0) + 1
        try:
            self._runs.create(str(run), b"")
        except FileExistsError as error:
            raise FencedError(f"another driver has begun run {run} of this query; stop one of them") from error
        for number in earlier:
            self._runs.delete(str(number))
        self.run = run
        return run

    def read(self, epoch: int, plan: str) -> Manifest | None:
        """The manifest of an epoch, or None.

        Raises:
            PlanMismatchError: it was written for another plan.
            StateLostError: it cannot be read.
        """
        data = self._files.read(str(epoch))
        if data is None:
            return None
        path = self._files.path(str(epoch))
        manifest = Manifest.decode(data, path)
        if manifest.plan != plan:
            raise PlanMismatchError(
                f"{path} was written for another query:\n{manifest.plan}but this query is\n{plan}"
                "Use a new checkpointLocation for a query that has changed."
            )
        return manifest

    def create(self, manifest: Manifest) -> None:
        """Write an epoch's manifest.

        Raises:
            FencedError: another driver has taken the query over, or has written this epoch.
        """
        newest = max(_numbers(self._runs), default=0)
        if newest > self.run:
            raise FencedError(
                f"run {self.run} of the query was replaced by run {newest}, in another driver; stop this one"
            )
        try:
            self._files.create(str(manifest.epoch), manifest.encode())
        except FileExistsError as error:
            raise FencedError(
                f"{self._files.path(str(manifest.epoch))} has been written since this query began the epoch: another "
                "driver runs on the same checkpoint. Stop one of them, or give each its own checkpointLocation."
            ) from error

    def purge(self, epoch: int) -> None:
        """Delete the manifest that falls out of retention when `epoch` begins."""
        if epoch >= RETAINED:
            self._files.delete(str(epoch - RETAINED))


def _numbers(files: CheckpointFiles) -> list[int]:
    return sorted(int(name) for name in files.names() if name.isdigit())
