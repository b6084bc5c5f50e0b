"""Whether this machine's processor can run the native code: what it cannot would end the process with SIGILL."""

from __future__ import annotations

import platform
from pathlib import Path

from pyslash.errors import UnsupportedProcessorError

# What native/core is compiled to (x86-64-v3), as Linux names it; `abm` is LZCNT.
X86_64_V3 = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"))


def check_processor(machine: str | None = None, cpuinfo: str | None = None) -> None:
    """Pass if the native code can run here; arguments replace what the system says.

    Raises:
        UnsupportedProcessorError: an instruction set is missing.
    """
    if (machine or platform.machine()).lower() not in ("x86_64", "amd64"):
        return
    if cpuinfo is None:
        try:
            cpuinfo = Path("/proc/cpuinfo").read_text()
        except OSError:
            return
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            if missing := sorted(X86_64_V3 - set(value.split())):
                raise UnsupportedProcessorError(
                    "pyslash needs a processor of the level x86-64-v3 (Intel Haswell, AMD Excavator, or later); this "
                    f"one lacks {', '.join(missing)}. Use another machine; or take -march=x86-64-v3 out of "
                    "native/core/CMakeLists.txt and check_processor() out of pyslash/__init__.py, and build pyslash"
                )
            return
