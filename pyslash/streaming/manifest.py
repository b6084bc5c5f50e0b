"""Manifests: one small file an epoch, under the query's checkpoint, that says which blocks the epoch consists of.

A manifest is created exclusively and atomically, by the same `CheckpointFileManager` that Spark uses for its offset
log on this file system. Once it exists the epoch's rows are fixed: a replay reads it instead of updating again.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from pyslash.agent.descriptor import AgentDescriptor
from pyslash.errors import PlanMismatchError, StateLostError

FORMAT = 1
DIRECTORY = "slash/manifests"
# As many as Spark keeps of its own logs by default (spark.sql.streaming.minBatchesToRetain).
RETAINED = 100


@dataclass(frozen=True)
class Manifest:
    """An epoch: its blocks and the watermarks between which its windows close.

    `blocks` are (agent incarnation, offset in that agent's arena); `agents` are the descriptors of every agent that
    holds state of the query as of this epoch, so that a restarted query finds them again.
    """

    epoch: int
    plan: str
    emitted_us: int
    watermark_us: int
    rows: int
    late_rows: int
    blocks: list[tuple[str, int]]
    agents: list[AgentDescriptor]

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
        return cls(**fields)


class ManifestLog:
    """The manifests of one checkpoint."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._root = jvm.org.apache.hadoop.fs.Path(checkpoint, DIRECTORY)
        self._files = _file_manager(jvm).create(self._root, configuration)
        if not self._files.exists(self._root):
            self._files.mkdirs(self._root)

    def epochs(self) -> list[int]:
        """Epochs that have a manifest, ascending."""
        names = (str(status.getPath().getName()) for status in self._files.list(self._root))
        return sorted(int(name) for name in names if name.isdigit())

    def read(self, epoch: int, plan: str) -> Manifest | None:
        """The manifest of an epoch, or None.

        Raises:
            PlanMismatchError: it was written for another plan.
            StateLostError: it cannot be read.
        """
        path = self._path(epoch)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            data = bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
        manifest = Manifest.decode(data, str(path))
        if manifest.plan != plan:
            raise PlanMismatchError(
                f"{path} was written for another query:\n{manifest.plan}but this query is\n{plan}"
                "Use a new checkpointLocation for a query that has changed."
            )
        return manifest

    def create(self, manifest: Manifest) -> None:
        """Write an epoch's manifest; fails if it exists."""
        stream = self._files.createAtomic(self._path(manifest.epoch), False)
        try:
            stream.write(bytearray(manifest.encode()))
            stream.close()
        except Exception:
            stream.cancel()
            raise

    def purge(self, epoch: int) -> None:
        """Delete the manifest that falls out of retention when `epoch` begins."""
        old = self._path(epoch - RETAINED)
        if epoch >= RETAINED and self._files.exists(old):
            self._files.delete(old)

    def _path(self, epoch: int) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, str(epoch))


def _file_manager(jvm: Any) -> Any:
    """Spark's `CheckpointFileManager` object; it has moved between 4.0 and 4.1."""
    streaming = jvm.org.apache.spark.sql.execution.streaming
    for package in (streaming.checkpointing, streaming):
        candidate = package.CheckpointFileManager
        if isinstance(candidate, JavaClass):  # py4j takes any other name for a package's
            return candidate
    raise StateLostError("this Spark has no CheckpointFileManager where pyslash knows to look for it")
