"""Names that are given once, on file systems with and without hard links."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslash.state.files import exclusive
from pyslash.state.files.checkpoint_files import LocalFiles
from pyslash.state.files.exclusive import Publish, by_link, by_rename, publish_in


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without hard links, as Linux reports it."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)


@pytest.fixture
def vfat(tmp_path: Path) -> Iterator[Path]:
    """A file system that has none."""
    if "vfat" not in Path("/proc/filesystems").read_text() or shutil.which("mkfs.vfat") is None or os.geteuid() != 0:
        pytest.skip("a vfat mount takes root, mkfs.vfat and a kernel with vfat")
    image, mount = tmp_path / "image", tmp_path / "mount"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(1 << 22)
    subprocess.run(["mkfs.vfat", image], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no loop device for a vfat mount: {mounted.stderr.strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)


def test_a_folder_with_links_takes_them(tmp_path: Path) -> None:
    assert publish_in(tmp_path) is by_link
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_links")
def test_without_links_an_exclusive_rename_does_it(tmp_path: Path) -> None:
    assert publish_in(tmp_path) is by_rename
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_links")
@pytest.mark.parametrize("answer", [errno.EINVAL, errno.ENOSYS])
def test_with_neither_there_is_no_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(answer, os.strerror(answer))

    monkeypatch.setattr(exclusive, "by_rename", refuse)
    assert publish_in(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_links")
def test_a_rename_that_replaces_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may not know of the flag that forbids it."""
    monkeypatch.setattr(exclusive, "by_rename", os.replace)
    assert publish_in(tmp_path) is None


@pytest.mark.parametrize("publish", [by_link, by_rename])
def test_of_many_who_create_a_file_one_succeeds(tmp_path: Path, publish: Publish) -> None:
    _check_exclusive(LocalFiles(tmp_path, publish))
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_vfat(vfat: Path) -> None:
    publish = publish_in(vfat)
    assert publish is by_rename
    _check_exclusive(LocalFiles(vfat / "slash" / "manifests", publish))


def _check_exclusive(files: LocalFiles) -> None:
    won: list[bytes] = []

    def create(content: bytes) -> None:
        try:
            files.create("7", content)
            won.append(content)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=create, args=(bytes([i]) * 5000,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [files.read("7")] == won
    with pytest.raises(FileExistsError):
        files.create("7", b"late")
