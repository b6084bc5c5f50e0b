"""The folder of block files under a query's checkpoint location, on any file system that pyarrow knows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as fs

from pyslash._native import crc32c
from pyslash.errors import CheckpointError, CorruptBlockError
from pyslash.file_systems import FILE_ERRORS, open_location, reason_of, sync
from pyslash.units import Epoch, Run

# What the files of a checkpoint are called: one part of a path, which names nothing above or beside it.
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,199}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
# `<epoch>-<run>-<who wrote it>.arrow`; of one that is being written on a local disk, `.<its name>.<32 hex digits>`.
_BLOCK_FILE = re.compile(
    r"(?P<hidden>\.)?(?:0|[1-9][0-9]{0,18})-(?P<run>0|[1-9][0-9]{0,18})-"
    r"(?:[0-9a-f]{32}|snapshot-[0-9a-f]{32}|replanned-[0-9]+|adopted-[0-9]+-[0-9]+)\.arrow(?(hidden)\.[0-9a-f]{32})"
)


# Folders that this process has made in stores where that takes requests, and a file does not need it.
_made: set[str] = set()


def numbers(names: Iterable[str]) -> list[int]:
    """Those of the files that are named by an epoch or run, ascending; what else lies in a folder is not ours."""
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def run_of(name: str) -> Run | None:
    """The run that wrote a block file, or has begun to; None if it is no block file of ours."""
    found = _BLOCK_FILE.fullmatch(name)
    return Run(int(found["run"])) if found else None


def is_block_file(name: Any) -> bool:
    """Whether it is the name of a block file that is whole."""
    return type(name) is str and not name.startswith(".") and run_of(name) is not None


@dataclass(frozen=True)
class BlockFile:
    """A file as a manifest names it. `last_pane` (microseconds) tells when no open window needs it any more."""

    name: str
    bytes: int
    crc: int
    last_pane: int
    holder: str
    snapshot: bool

    @property
    def epoch(self) -> Epoch:
        """Of its name: when it was begun, it held nothing of a later one."""
        return Epoch(int(self.name.partition("-")[0]))


class WrittenFile:
    """A file that is being written, as a Python file, with the `size` in bytes and the `crc` (CRC32C) so far."""

    closed = False

    def __init__(self, stream: Any, is_local: bool = False) -> None:
        """`stream`: of a file of this host, if it `is_local`."""
        self._stream = stream
        self._is_local = is_local
        self.size = 0
        self.crc = 0

    def write(self, data: Any) -> int:
        """Pass it on."""
        self._stream.write(data)
        size = memoryview(data).nbytes
        self.size, self.crc = self.size + size, crc32c(data, self.crc)
        return size

    def start_writeback(self) -> None:
        """Have this host's disk begin with what was written so far; any other store takes it as it comes."""
        if self._is_local:
            self._stream.flush()
            # Unlike fdatasync, it does not have the device empty its cache, which holds up whoever else writes.
            os.posix_fadvise(self._stream.fileno(), 0, self.size, os.POSIX_FADV_DONTNEED)

    def tell(self) -> int:
        """Where the next byte goes."""
        return self.size

    def flush(self) -> None:
        """Whoever has opened the stream closes it."""

    close = flush


class BlockDirectory:
    """`<checkpointLocation>/slash/blocks`."""

    def __init__(self, location: str) -> None:
        """`location` is a Hadoop path or URI.

        Raises:
            CheckpointError: pyarrow has no such file system.
        """
        self.location = location
        try:
            self._files, self._root = open_location(location)
        except (*FILE_ERRORS, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint {location} cannot be reached by pyarrow: {reason_of(error)}. Give the query a "
                "location on a file system that pyarrow knows, or keep its state in memory alone: "
                "spark.slash.durability=off"
            ) from None

    @property
    def is_local(self) -> bool:
        """Whether it is on a file system of this host, whose files are mapped."""
        return isinstance(self._files, fs.LocalFileSystem)

    def write(self, name: str, fill: Callable[[WrittenFile], None], *, makes: bool = True) -> tuple[int, int]:
        """Write a file durably, by `fill`. Returns its bytes and their CRC32C. A name is written once.

        `makes`: the directory, if it is not there.

        Raises:
            CheckpointError: no room, no permission, no such store. No manifest names what is left of the file.
        """
        path = self._path(name)
        size = 0
        try:
            if makes and self.location not in _made:
                self._files.create_dir(self._root, recursive=True)
                if not self.is_local:
                    _made.add(self.location)
            with created(path) if self.is_local else self._files.open_output_stream(path) as stream:
                written = WrittenFile(stream, self.is_local)
                try:
                    fill(written)
                finally:
                    size = written.size
        except FILE_ERRORS as error:
            raise CheckpointError(
                f"{self.location}/{name} cannot be written: {reason_of(error)}, after {size} bytes. The batch fails "
                "before its commit; once the cause is gone the query can be started again"
            ) from None
        return size, written.crc

    def read(self, file: BlockFile) -> pa.Buffer:
        """The bytes of a file, checked against what its manifest says.

        Raises:
            CorruptBlockError: of another length or checksum.
            CheckpointError: missing, or cannot be read.
        """
        # A snapshot may be many times as large as the memory that its reader has: pages of a mapping can be dropped.
        data = self.mapped(file) if self.is_local else self.content(file.name)
        if data.size != file.bytes or crc32c(data) != file.crc:
            raise CorruptBlockError(
                f"{self.location}/{file.name} has {data.size} bytes of CRC32C {crc32c(data):08x}, its manifest says "
                f"{file.bytes} of {file.crc:08x}"
            )
        return data

    def mapped(self, file: BlockFile) -> pa.Buffer:
        """The bytes of a file of the length that its manifest says, unchecked; of a local one, read when they are used.

        Raises:
            CorruptBlockError: of another length.
            CheckpointError: missing, or cannot be read.
        """
        if not self.is_local:
            data = self.content(file.name)
        else:
            try:
                with pa.memory_map(self._path(file.name)) as source:
                    data = source.read_buffer()
            except FILE_ERRORS as error:
                raise CheckpointError(f"{self.location}/{file.name} cannot be read: {reason_of(error)}") from None
        if data.size != file.bytes:
            raise CorruptBlockError(
                f"{self.location}/{file.name} has {data.size} bytes, its manifest says {file.bytes}"
            )
        return data

    def content(self, name: str) -> pa.Buffer:
        """The bytes of a file as they are.

        Raises:
            CheckpointError: missing, or cannot be read.
        """
        try:
            with self._files.open_input_file(self._path(name)) as stream:
                return stream.read_buffer(stream.size())
        except FILE_ERRORS as error:
            raise CheckpointError(f"{self.location}/{name} cannot be read: {reason_of(error)}") from None

    def names(self) -> set[str]:
        """Every file that is there.

        Raises:
            CheckpointError: the folder cannot be listed.
        """
        selector = fs.FileSelector(self._root, allow_not_found=True)
        try:
            found = self._files.get_file_info(selector)
            return {info.base_name for info in found if info.type is fs.FileType.File}
        except FILE_ERRORS as error:
            raise CheckpointError(f"{self.location} cannot be listed: {reason_of(error)}") from None

    def delete(self, names: set[str]) -> None:
        """Delete files; one that is gone is no error."""
        for name in sorted(names):
            try:
                self._files.delete_file(self._path(name))
            except FileNotFoundError:
                continue
            except FILE_ERRORS as error:
                raise CheckpointError(f"{self.location}/{name} cannot be deleted: {reason_of(error)}") from None

    def _path(self, name: str) -> str:
        """Of a file of this folder, and of nothing else.

        Raises:
            CheckpointError: the name could lead elsewhere.
        """
        if not (_NAME.fullmatch(name) or _BLOCK_FILE.fullmatch(name)):
            raise CheckpointError(f"{name!r} is the name of no file of {self.location}; nothing is done with it")
        return f"{self._root}/{name}"


@contextmanager
def created(path: str) -> Iterator[Any]:
    """A local file that is seen under its name whole or not at all, whatever has the name before: a link, say."""
    folder, _, name = path.rpartition("/")
    hidden = Path(folder, f".{name}.{uuid4().hex}")
    handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
    except BaseException:
        with suppress(OSError):
            hidden.unlink()
        raise
    sync(folder)
