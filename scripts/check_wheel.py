"""What auditwheel does not look at: the library inside a wheel's jar asks for no glibc later than 2.28.

python scripts/check_wheel.py WHEEL
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

LATEST = (2, 28)


def versions(library: bytes) -> set[str]:
    """The symbol versions that it needs, as GLIBC_2.17."""
    found = set()
    for section in ELFFile(io.BytesIO(library)).iter_sections():
        if isinstance(section, GNUVerNeedSection):
            found |= {str(auxiliary.name) for _, needed in section.iter_versions() for auxiliary in needed}
    return found


def too_late(needed: set[str]) -> list[str]:
    """Those that a machine with glibc 2.28, and no C++ library, has not."""
    late = []
    for name in sorted(needed):
        family, _, number = name.partition("_")
        if family != "GLIBC" or tuple(map(int, number.split("."))) > LATEST:
            late.append(name)
    return late


def main(wheel: Path) -> int:
    """1 and a line a library that would not load; 0 else."""
    status = 0
    with zipfile.ZipFile(wheel) as files:
        libraries = {name: files.read(name) for name in files.namelist() if name.endswith(".so")}
        with zipfile.ZipFile(io.BytesIO(files.read("pyslash/jars/pyslash.jar"))) as jar:
            libraries |= {name: jar.read(name) for name in jar.namelist() if name.endswith(".so")}
    if len(libraries) != 2:
        print(f"check_wheel: {wheel.name} has {sorted(libraries)}, not one library for Python and one for the JVM")
        status = 1
    for name, library in libraries.items():
        if late := too_late(versions(library)):
            print(f"check_wheel: {name} in {wheel.name} needs {', '.join(late)}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
