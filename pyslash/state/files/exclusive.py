"""Gives a complete file its name on a local file system, in one step, and only if the name is free.

A hard link does so, where the file system has hard links. Some have none (vfat and exFAT, SMB shares, several kinds of
FUSE and container mounts); Linux then has a rename that refuses a taken name. What a folder supports is tried, not
derived from the kind of its file system: FUSE has as many answers as servers.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1

Publish = Callable[[Path, Path], None]
"""Names a hidden file: (hidden, name). The hidden name may stay. Raises FileExistsError where the name is taken."""


def by_link(hidden: Path, name: Path) -> None:
    """Give the hidden file a second name."""
    os.link(hidden, name)


def by_rename(hidden: Path, name: Path) -> None:
    """Rename the hidden file, by Linux's `renameat2`."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)  # glibc has it since 2.28
    if rename is None:
        raise OSError("the C library has no renameat2")
    if rename(_AT_FDCWD, os.fsencode(hidden), _AT_FDCWD, os.fsencode(name), _RENAME_NOREPLACE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(name))  # FileExistsError for EEXIST


def publish_in(folder: Path) -> Publish | None:
    """The way in which files of this folder get their names; None if the file system supports none.

    Raises:
        OSError: no file can be written there.
    """
    for publish in (by_link, by_rename):
        if _works(publish, folder):
            return publish
    return None


def _works(publish: Publish, folder: Path) -> bool:
    """Whether this way names a file, and refuses to give another file the same name."""
    names = [folder / f".probe.{uuid4().hex}" for _ in range(3)]
    first, second, taken = names
    try:
        first.touch()
        second.touch()
        try:
            publish(first, taken)
        except OSError:
            return False
        try:
            publish(second, taken)
        except FileExistsError:
            return True
        except OSError:
            return False
        return False
    finally:
        for name in names:
            name.unlink(missing_ok=True)
