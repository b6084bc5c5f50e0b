"""The first file system of a lab host: busybox, `init` and modules, as a cpio archive in the "newc" format."""

from __future__ import annotations

import stat
import zlib
from pathlib import Path

from kernel import Kernel, module_bytes

_DIRECTORIES = ("bin", "dev", "modules", "proc", "sys")


def initramfs(kernel: Kernel, busybox: Path, init: Path) -> bytes:
    """The compressed archive. Modules are numbered in the order in which they have to be loaded."""
    entries: list[tuple[str, int, bytes]] = [(name, stat.S_IFDIR | 0o755, b"") for name in _DIRECTORIES]
    entries.append(("init", stat.S_IFREG | 0o755, init.read_bytes()))
    entries.append(("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes()))
    for number, module in enumerate(kernel.load_order()):
        name = f"modules/{number:03}_{module.name.split('.ko')[0]}.ko"
        entries.append((name, stat.S_IFREG | 0o644, module_bytes(module)))
    archive = b"".join(_entry(number, *entry) for number, entry in enumerate(entries, 1))
    compressor = zlib.compressobj(1, wbits=31)  # gzip's framing
    return compressor.compress(archive + _entry(0, "TRAILER!!!", 0, b"")) + compressor.flush()


def _entry(inode: int, name: str, mode: int, data: bytes) -> bytes:
    named = name.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device and rdevice (major, minor), length of the name, check
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(named), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(header + named) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
