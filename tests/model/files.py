"""The checkpoint's file systems, in memory: the small files of the driver, and the block files of the agents."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileType

from tests.model.schedule import CREATE, READ, WRITE, Kind
from tests.model.world import Violation, World, flipped

CONTROL_READ = frozenset({Kind.READ_FAILS})


class NoBackfills:
    """`pyslash.state.backfill.Backfills` of a query that gets none."""

    is_local = True

    def due(self, *_: Any) -> list[Any]:
        return []


class ControlFiles:
    """`pyslash.state.files.checkpoint_files.CheckpointFiles`."""

    def __init__(self, world: World, files: dict[str, bytes], folder: str) -> None:
        self._world, self._files, self._folder = world, files, folder

    def path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def names(self) -> list[str]:
        if self._world.point(f"lists {self._folder}", CONTROL_READ):
            raise OSError(errno.EIO, "the connection was lost")
        return list(self._files)

    def read(self, name: str) -> bytes | None:
        if self._world.point(f"reads {self.path(name)}", CONTROL_READ):
            raise OSError(errno.EIO, "the connection was lost")
        return self._files.get(name)

    def create(self, name: str, content: bytes) -> None:
        fault = self._world.point(f"creates {self.path(name)}", CREATE)
        if fault is Kind.CREATE_FAILS:
            raise OSError(errno.ENOSPC, "no space left")
        if name in self._files:
            raise FileExistsError(self.path(name))
        if fault is not Kind.CREATE_LIES:
            half = fault is Kind.CREATE_TORN
            self._files[name] = content[: len(content) // 2] if half else content
            if half:
                self._world.torn.add(self.path(name))
            if self._folder.endswith("runs"):
                self._took_over(int(name), fault is None)
        if fault is Kind.CREATE_UNACKED:
            raise OSError(errno.EIO, "the connection was lost")
        self._world.point(f"has created {self.path(name)}")

    def delete(self, name: str) -> None:
        self._world.point(f"deletes {self.path(name)}")
        self._files.pop(name, None)
        self._world.torn.discard(self.path(name))
        if self._folder.endswith("runs") and int(name) == self._world.newest_run[0]:
            # Its own driver found that it was torn: that run has not begun.
            self._world.newest_run = self._world.earlier_run

    def _took_over(self, run: int, knows: bool) -> None:
        driver, (newest, owner) = self._world.running, self._world.newest_run
        if run < newest:
            return  # overtaken since it looked; it looks again before it goes on
        if driver.run and owner != driver.number:
            raise Violation(f"{driver}, of run {driver.run}, was replaced by driver {owner}, and takes over again")
        if knows:
            driver.run = run
        self._world.earlier_run = newest, owner
        self._world.newest_run = run, driver.number


class BlockFiles:
    """As much of `pyarrow.fs.FileSystem` as block files need."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.files: dict[str, bytes] = {}

    def create_dir(self, path: str, recursive: bool) -> None:
        """Folders are names only."""

    def open_output_stream(self, path: str) -> _Output:
        return _Output(self, path)

    def open_input_file(self, path: str) -> _Input:
        fault = self.world.point(f"reads {path}", READ)
        if fault is Kind.READ_FAILS:
            raise OSError(errno.EIO, "the connection was lost")
        if path not in self.files:
            raise FileNotFoundError(path)
        data = self.files[path]
        return _Input(flipped(data, self.world.chance) if fault is Kind.READ_FLIPPED and data else data)

    def get_file_info(self, selector: Any) -> list[Any]:
        self.world.point("lists the block files")
        return [SimpleNamespace(base_name=path.rpartition("/")[2], type=FileType.File) for path in self.files]

    def delete_file(self, path: str) -> None:
        self.world.point(f"deletes {path}")
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(path)


class _Output:
    """A file that gets its bytes when it is closed; the faults of writing strike then."""

    def __init__(self, owner: BlockFiles, path: str) -> None:
        self._owner, self._path = owner, path
        self._pieces: list[bytes] = []

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._close(b"".join(self._pieces))

    def write(self, data: Any) -> None:
        self._pieces.append(bytes(data))

    def _close(self, content: bytes) -> None:
        world, files = self._owner.world, self._owner.files
        files[self._path] = content[: len(content) // 2]
        fault = world.point(f"writes {self._path}", WRITE)
        if fault is Kind.WRITE_FAILS:
            raise OSError(errno.ENOSPC, "no space left")
        files[self._path] = flipped(content, world.chance) if fault is Kind.FILE_FLIPPED else content
        if fault is Kind.WRITE_UNACKED:
            raise OSError(errno.EIO, "the connection was lost")
        if fault is Kind.FILE_TORN:
            files[self._path] = content[: world.chance.randrange(len(content))]
        if fault is Kind.FILE_LOST:
            del files[self._path]


class _Input:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def __enter__(self) -> _Input:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def size(self) -> int:
        return len(self._data)

    def read_buffer(self, size: int) -> pa.Buffer:
        return pa.py_buffer(self._data[:size])
