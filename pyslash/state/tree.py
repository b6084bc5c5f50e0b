"""A folder with all that is below it, on any file system that pyarrow knows: made in one step where it can be."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow.fs as fs

from pyslash.errors import CheckpointError, InvalidInputError
from pyslash.file_systems import FILE_ERRORS, open_location, reason_of, sync
from pyslash.state.files.directory import created


class Tree:
    """The folder at a location; paths are relative to it."""

    def __init__(self, location: str) -> None:
        """`location` is a path or a URI.

        Raises:
            CheckpointError: pyarrow has no such file system.
        """
        local = location if "://" in location else os.path.abspath(location.removeprefix("file:"))
        self.location = local.rstrip("/")
        try:
            self._files, self._root = open_location(self.location)
        except (*FILE_ERRORS, ValueError) as error:
            raise CheckpointError(f"{location} cannot be reached by pyarrow: {reason_of(error)}") from None

    @property
    def is_local(self) -> bool:
        """Whether it is on a file system of this host."""
        return isinstance(self._files, fs.LocalFileSystem)

    def below(self, folder: str = "") -> list[str]:
        """Every file below a folder, ascending, without hidden ones."""
        return sorted(path for path, kind in self._listed(folder, True) if kind is fs.FileType.File)

    def folders(self, folder: str = "", *, hidden: bool = False) -> list[str]:
        """The names of the folders in a folder, ascending, without hidden ones unless these are asked for."""
        listed = self._listed(folder, False, hidden)
        return sorted(path.rpartition("/")[2] for path, kind in listed if kind is fs.FileType.Directory)

    def has(self, path: str) -> bool:
        """Whether there is such a file."""
        with self._reaching(path):
            return bool(self._files.get_file_info(self._at(path)).type is fs.FileType.File)

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with self._reaching(path), self._files.open_input_file(self._at(path)) as stream:
            return bytes(stream.read())

    def write(self, path: str, content: bytes) -> None:
        """Write a file durably."""
        with self._reaching(path):
            self._make_room_for(path)
            whole = created(self._at(path)) if self.is_local else self._files.open_output_stream(self._at(path))
            with whole as stream:
                stream.write(content)

    def share(self, path: str, source: Tree) -> bool:
        """Have the file of another tree under the same path, which nobody may change from then on.

        Returns:
            Whether both trees share it, by a hard link. If not, it was copied.
        """
        with self._reaching(path):
            self._make_room_for(path)
            if self.is_local and source.is_local:
                try:
                    os.link(source._at(path), self._at(path))
                except FileNotFoundError:
                    raise
                except OSError:
                    pass  # another file system, or one that has no hard links, or no more of them for this file
                else:
                    sync(os.path.dirname(self._at(path)))
                    return True
            # hdfs-native copies by way of this process, and to a name that it gets wrong.
            elif self._files.equals(source._files) and not isinstance(self._files, fs.PyFileSystem):
                self._files.copy_file(source._at(path), self._at(path))
                return False
        self.write(path, source.read(path))
        return False

    def delete_file(self, path: str) -> None:
        """Delete a file."""
        with self._reaching(path):
            self._files.delete_file(self._at(path))

    def delete(self) -> None:
        """Delete it, if it is there."""
        with self._reaching(""):
            if self._files.get_file_info(self._root).type is not fs.FileType.NotFound:
                self._files.delete_dir(self._root)

    @contextmanager
    def made(self) -> Iterator[Tree]:
        """A tree to fill, which becomes this one at the end. On a local file system it does so in one step, and nothing
        is here before; elsewhere what is written is seen at once.

        Raises:
            InvalidInputError: something is here already.
        """
        if self._listed("", True, hidden=True):
            raise InvalidInputError(f"{self.location} is not empty: name a folder that does not exist yet")
        if not self.is_local:
            yield self
            return
        root = Path(self._root).resolve()  # no folder takes the place of a link
        with self._reaching(""):
            root.parent.mkdir(parents=True, exist_ok=True)
            # Of one that was killed.
            for left in root.parent.iterdir():
                if re.fullmatch(rf"\.{re.escape(root.name)}\.[0-9a-f]{{32}}", left.name):
                    shutil.rmtree(left, ignore_errors=True)
        hidden = root.with_name(f".{root.name}.{uuid4().hex}")
        try:
            yield Tree(str(hidden))
            with self._reaching(""):
                _publish(hidden, root)
        except Exception:
            shutil.rmtree(hidden, ignore_errors=True)
            raise

    def _listed(self, folder: str, recursive: bool, hidden: bool = False) -> list[tuple[str, fs.FileType]]:
        at = self._at(folder)
        with self._reaching(folder):
            infos = self._files.get_file_info(fs.FileSelector(at, allow_not_found=True, recursive=recursive))
        found = [(info.path.removeprefix(self._root).lstrip("/"), info.type) for info in infos]
        return [(path, kind) for path, kind in found if hidden or not any(map(_is_hidden, path.split("/")))]

    def _at(self, path: str) -> str:
        if ".." in path.split("/"):
            raise CheckpointError(f"{path!r} leads out of {self.location}; nothing is done with it")
        return f"{self._root}/{path}" if path else self._root

    def _make_room_for(self, path: str) -> None:
        self._files.create_dir(self._at(path.rpartition("/")[0]), recursive=True)

    @contextmanager
    def _reaching(self, path: str) -> Iterator[None]:
        try:
            yield
        except FILE_ERRORS as error:
            raise CheckpointError(f"{self.location}/{path} cannot be reached: {reason_of(error)}") from None


def _publish(hidden: Path, root: Path) -> None:
    try:
        hidden.rename(root)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise InvalidInputError(f"{root} was made by somebody else meanwhile: choose another name") from None
    sync(root.parent)


def _is_hidden(name: str) -> bool:
    return name.startswith(".")
