"""A kernel with rdma_rxe for the lab's hosts: the distribution's package, unpacked into a cache, never installed."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Debian's and Ubuntu's names of "the current kernel".
META_PACKAGES = ("linux-image-amd64", "linux-image-generic")
# What a host needs: its disk and output, the device under test, and the faults that tests make.
WANTED = (
    "virtio_pci",
    "virtio_net",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
    "dummy",
    "sch_netem",
    "crc32_generic",  # rxe asks the crypto layer for it by name
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
)


class LabError(Exception):
    """The lab cannot be had here; the message says what is missing."""


@dataclass(frozen=True)
class Kernel:
    """A bootable image and the folder of its modules."""

    version: str
    image: Path
    modules: Path

    def load_order(self) -> list[Path]:
        """The wanted modules, each after what it depends on. Those built into the kernel are left out."""
        listed = (line.split(":") for line in (self.modules / "modules.dep").read_text().splitlines())
        needs = {path: needed.split() for path, needed in listed}
        by_name = {_module_name(path): path for path in needs}
        builtin = {_module_name(line) for line in (self.modules / "modules.builtin").read_text().splitlines()}
        ordered: dict[str, None] = {}

        def add(path: str) -> None:
            for needed in reversed(needs[path]):
                ordered.setdefault(needed)
            ordered.setdefault(path)

        for name in WANTED:
            if name in by_name:
                add(by_name[name])
            elif name not in builtin:
                raise LabError(f"kernel {self.version} has no module {name}")
        return [self.modules / path for path in ordered]


def cache_folder() -> Path:
    """Where unpacked kernels are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pyslash" / "rxe_lab"


def get_kernel() -> Kernel:
    """The newest kernel of the distribution's package lists; downloaded at most once.

    Raises:
        LabError: no such package, or the download failed.
    """
    cache = cache_folder()
    if found := _unpacked(cache):
        return found
    image = _image_package()
    version = image.removeprefix("linux-image-")
    names = [image, f"linux-modules-{version}", f"linux-modules-extra-{version}"]
    packages = [name for name in names if name == image or _is_known(name)]
    download = cache / "download"
    shutil.rmtree(download, ignore_errors=True)
    download.mkdir(parents=True)
    _run(["apt-get", "download", "-qq", *packages], cwd=download)
    root = download / "root"
    for package in sorted(download.glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(root)])
        package.unlink()
    # On a merged /usr the modules may lie below either; depmod looks below /lib.
    if not (root / "lib" / "modules").exists():
        (root / "lib").mkdir(exist_ok=True)
        (root / "usr" / "lib" / "modules").rename(root / "lib" / "modules")
    _run([shutil.which("depmod") or "/sbin/depmod", "-b", str(root), version])
    root.rename(cache / version)
    shutil.rmtree(download)
    found = _unpacked(cache)
    if found is None:
        raise LabError(f"{image} holds no bootable kernel")
    return found


def module_bytes(path: Path) -> bytes:
    """A module as `insmod` takes it."""
    match path.suffix:
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case ".zst":
            return subprocess.run(["zstd", "-dcq", str(path)], check=True, capture_output=True).stdout
        case _:
            return path.read_bytes()


def _unpacked(cache: Path) -> Kernel | None:
    for folder in sorted(cache.glob("[0-9]*"), reverse=True):
        version = folder.name
        kernel = Kernel(version, folder / "boot" / f"vmlinuz-{version}", folder / "lib" / "modules" / version)
        if kernel.image.exists() and (kernel.modules / "modules.dep").exists():
            return kernel
    return None


def _image_package() -> str:
    for meta in META_PACKAGES:
        shown = subprocess.run(["apt-cache", "depends", meta], capture_output=True, text=True, check=False).stdout
        if names := re.findall(r"Depends: (linux-image-(?:unsigned-)?[\d.]+-\S+)", shown):
            return str(names[-1])
    raise LabError(f"none of the packages {', '.join(META_PACKAGES)} is known here (apt-get update?)")


def _is_known(package: str) -> bool:
    shown = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False)
    return shown.returncode == 0


def _module_name(path: str) -> str:
    return Path(path.strip()).name.split(".ko")[0].replace("-", "_")


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
