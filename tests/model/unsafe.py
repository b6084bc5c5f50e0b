"""Switches that take a protection away. They exist for the tests of the model alone: no configuration reaches them.

A model that finds nothing under such a switch would not have found the bug that the protection is against.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from pyslash import _native
from pyslash.agent.store.block_set import BlockSet
from pyslash.agent.store.state import AgentState
from pyslash.cluster.replicas import Replicas
from pyslash.driver import operator_runner
from pyslash.driver.restart.recovery import Recovery
from pyslash.emit import merge
from pyslash.protocol.messages import Commit
from pyslash.spark.execution import LoggedOffsets
from pyslash.state.files import block_file
from pyslash.state.files.block_file import Segment, StoredBlock
from pyslash.state.files.directory import BlockDirectory, BlockFile
from pyslash.state.manifest import Manifest, ManifestLog
from tests.model.spark import Operator, Query
from tests.model.world import World

_PUBLISHED = 2
_HEAD_CRC_AT, _ENTRIES_AT, _ENTRY_BYTES, _ENTRY_CRC_AT = 128, 192, 48, 20
_CRC = struct.Struct("<I")


@contextmanager
def with_spilled_blocks_folded() -> Iterator[None]:
    """A compaction may take a block that is on its way to disk."""
    with patch.object(BlockSet, "spilling", property(lambda _: None, lambda *_: None), create=True):
        yield


@contextmanager
def without_fencing() -> Iterator[None]:
    """Every driver takes itself for the first run: nobody is older than anybody."""

    def take_over(log: ManifestLog, held: int = 0) -> int:
        log.run = 1
        return 1

    with (
        patch.object(ManifestLog, "take_over", take_over),
        patch.object(ManifestLog, "_check_newest", lambda log, run: run),
    ):
        yield


@contextmanager
def with_runs_of_the_checkpoint_alone() -> Iterator[None]:
    """A run has the next number that the checkpoint tells, whatever it went back behind."""
    with patch.object(World, "next_run", lambda world, above: above + 1):
        yield


@contextmanager
def without_resync() -> Iterator[None]:
    """After a loss, replicas are sent with the next epoch only."""
    with patch.object(Replicas, "resync", lambda *_, **__: 0):
        yield


@contextmanager
def with_manifests_overwritten() -> Iterator[None]:
    """A driver that was replaced may still write manifests, over those of the newer one."""

    def create(log: ManifestLog, manifest: Manifest) -> None:
        log._files.delete(str(manifest.epoch))
        log._files.create(str(manifest.epoch), manifest.encode())

    with patch.object(ManifestLog, "create", create):
        yield


@contextmanager
def without_attempt_filtering() -> Iterator[None]:
    """Agents commit whatever was published for the epoch, by whichever attempt."""
    real = AgentState.commit

    def commit(state: AgentState, query: bytes, request: Commit) -> Any:
        held = state.queries.get(query)
        if held is not None and held.epoch == request.epoch:
            offsets, heads = zip(*sorted(held.blocks), strict=True) if held.blocks else ((), ())
            return real(state, query, replace(request, offsets=list(offsets), heads=[head for head in heads if head]))
        published = {
            offset
            for offset, _, status, _, owner, epoch in state.arena.blocks()
            if (status, owner, epoch) == (_PUBLISHED, query, request.epoch)
        }
        return real(state, query, replace(request, offsets=sorted(published | set(request.offsets))))

    with patch.object(AgentState, "commit", commit):
        yield


@contextmanager
def without_offsets() -> Iterator[None]:
    """An epoch is replayed whatever offsets Spark has logged for it by now."""
    real = LoggedOffsets.parse

    def parse(entry: bytes) -> LoggedOffsets:
        return replace(real(entry), sources="", timestamp_ms=0)

    with patch.object(LoggedOffsets, "parse", parse):
        yield


@contextmanager
def without_fingerprints() -> Iterator[None]:
    """An epoch is replayed whatever has become of the query since."""
    with patch.object(Operator, "fingerprint", "filter"):
        yield


@contextmanager
def without_told_times() -> Iterator[None]:
    """A replayed epoch does not tell Spark the event times of its rows."""
    with patch.object(operator_runner, "tell_times", lambda cut, times: None):
        yield


@contextmanager
def with_functions_called_again() -> Iterator[None]:
    """A foreachBatch function is taken for a sink of Spark's, which may write an epoch again."""
    with patch.object(Query, "repeats", True):
        yield


@contextmanager
def without_leaving() -> Iterator[None]:
    """Where Spark goes on by itself, a manifest stays that says otherwise."""
    with patch.object(Recovery, "abandon_to_spark", lambda *_: None):
        yield


@contextmanager
def without_checksums() -> Iterator[None]:
    """Bytes are taken as they come: every checksum is first made to agree with them."""

    def read(directory: BlockDirectory, file: BlockFile) -> pa.Buffer:
        with directory._files.open_input_file(f"{directory._root}/{file.name}") as stream:
            return stream.read_buffer(stream.size())

    def listed(head: bytes, column: pa.Array, name: str) -> StoredBlock:
        buffers = [value.as_buffer() for value in column]
        raw = _believing(head, dict(enumerate(buffers)))
        return StoredBlock(raw, list(zip(block_file.segments_of(raw), buffers, strict=True)))

    with ExitStack() as stack:
        stack.enter_context(patch.object(BlockDirectory, "read", read))
        stack.enter_context(patch.object(block_file, "_listed", listed))
        stack.enter_context(patch.object(merge, "Merger", _BelievingMerger))
        yield


class _BelievingMerger:
    def __init__(self, *arguments: Any) -> None:
        self._merger = _native.Merger(*arguments)

    def add(self, raw: bytes, offset: int, buffer: Any) -> None:
        view = memoryview(buffer)
        within = {
            index: view[segment.offset - offset : segment.offset - offset + segment.length]
            for index, segment in enumerate(block_file.segments_of(raw))
            if _is_within(segment, offset, view.nbytes)
        }
        self._merger.add(_believing(raw, within), offset, buffer)

    def next(self) -> Any:
        return self._merger.next()


def _is_within(segment: Segment, offset: int, size: int) -> bool:
    return offset <= segment.offset and segment.offset + segment.length <= offset + size


def _believing(raw: bytes, segments: dict[int, Any]) -> bytes:
    """The head with the checksums that these segments have now, by their index."""
    head = bytearray(raw)
    for index, data in segments.items():
        _CRC.pack_into(head, _ENTRIES_AT + index * _ENTRY_BYTES + _ENTRY_CRC_AT, _native.crc32c(data))
    _CRC.pack_into(head, _HEAD_CRC_AT, 0)
    _CRC.pack_into(head, _HEAD_CRC_AT, _native.crc32c(head))
    return bytes(head)
