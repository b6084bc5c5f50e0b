"""A query's checkpoint, read by pyarrow alone, while the query runs or not, and never written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from pyslash.errors import CheckpointError, SlashError, StateLostError
from pyslash.state.files.block_file import StoredBlock, decode, opened
from pyslash.state.files.directory import BlockDirectory, BlockFile, numbers
from pyslash.state.manifest import BLOCKS, MANIFESTS, OPERATOR, Manifest
from pyslash.units import Epoch


@dataclass(frozen=True)
class StoredState:
    """The two folders of a checkpoint."""

    location: str
    manifests: BlockDirectory
    blocks: BlockDirectory

    @classmethod
    def at(cls, checkpoint: str) -> StoredState:
        """Of a `checkpointLocation`: a path, or a URI that pyarrow or Hadoop knows.

        Raises:
            CheckpointError: no such file system.
        """
        location = (checkpoint if "://" in checkpoint else os.path.abspath(checkpoint.removeprefix("file:"))).rstrip(
            "/"
        )
        return cls(location, BlockDirectory(f"{location}/{MANIFESTS}"), BlockDirectory(f"{location}/{BLOCKS}"))

    @classmethod
    def of(cls, checkpoint: str, operator: int) -> StoredState:
        """That of a query's stateful operator, the lowest of which is 0.

        Raises:
            CheckpointError: no such file system.
        """
        return cls.at(f"{checkpoint.rstrip('/')}/{OPERATOR.format(operator)}" if operator else checkpoint)

    @classmethod
    def of_operators(cls, checkpoint: str) -> list[StoredState]:
        """That of each stateful operator of a query, each behind those below it; of the first, whether it is there or
        not.

        Raises:
            CheckpointError: the checkpoint cannot be reached.
        """
        found = [cls.at(checkpoint)]
        while numbers((other := cls.at(f"{found[0].location}/{OPERATOR.format(len(found))}")).manifests.names()):
            found.append(other)
        return found

    def epochs(self) -> list[Epoch]:
        """Epochs that have a manifest, ascending.

        Raises:
            CheckpointError: none, or the checkpoint cannot be reached.
        """
        found = numbers(self.manifests.names())
        if not found:
            raise CheckpointError(
                f"{self.location} holds no state of pyslash: {MANIFESTS} has no manifest. Name the checkpointLocation "
                "of a query that has finished a batch on pyslash"
            )
        return [Epoch(number) for number in found]

    def manifest(self, epoch: Epoch | None = None) -> Manifest:
        """An epoch's, or the newest.

        Raises:
            CheckpointError: there is none of that epoch, or it cannot be read.
            StateLostError: it is not what was written.
        """
        known = self.epochs()
        wanted = known[-1] if epoch is None else epoch
        if wanted not in known:
            raise CheckpointError(
                f"{self.location} has no manifest of epoch {wanted}, only from {known[0]} to {known[-1]}"
            )
        return self._decoded(wanted)

    def every_manifest(self) -> Iterator[Manifest | SlashError]:
        """That of each epoch, ascending; where it cannot be read, or is not what was written, the error.

        A query that runs deletes its oldest one with each epoch: those that go meanwhile are left out.

        Raises:
            CheckpointError: as `epochs`.
        """
        for epoch in self.epochs():
            try:
                yield self._decoded(epoch)
            except SlashError as error:
                if epoch in self.epochs():
                    yield error

    def _decoded(self, epoch: Epoch) -> Manifest:
        content = self.manifests.content(str(epoch)).to_pybytes()
        return Manifest.decode(content, f"{self.manifests.location}/{epoch}", epoch)

    def opened(self, manifest: Manifest) -> list[StoredBlock]:
        """The blocks of an epoch, to be merged in part: what merges their segments checks them.

        Raises:
            StateLostError, CheckpointError, CorruptBlockError: as `read`.
        """
        self.check_files(manifest)
        return [block for file in manifest.files for block in opened(self.blocks.mapped(file), file.name)]

    def read(self, manifest: Manifest) -> list[tuple[BlockFile, list[StoredBlock]]]:
        """The files of an epoch with their blocks, every checksum of them checked.

        Raises:
            StateLostError: the epoch was not written to the checkpoint.
            CheckpointError, CorruptBlockError: a file is gone, or not what was written.
        """
        self.check_files(manifest)
        return [(file, decode(self.blocks.read(file), file.name)) for file in manifest.files]

    def blocks_of(self, manifest: Manifest) -> list[StoredBlock]:
        """All blocks of an epoch.

        Raises:
            StateLostError, CheckpointError, CorruptBlockError: as `read`.
        """
        return [block for _, stored in self.read(manifest) for block in stored]

    @staticmethod
    def check_files(manifest: Manifest) -> None:
        """Pass if the state of an epoch is in the checkpoint.

        Raises:
            StateLostError: it is in memory alone.
        """
        if manifest.blocks and not manifest.files:
            raise StateLostError(
                f"epoch {manifest.epoch} names no files: its query keeps its state in memory alone "
                "(spark.slash.durability)"
            )
