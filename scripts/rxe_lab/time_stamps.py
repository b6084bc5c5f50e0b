"""How fast this machine's time stamp counter counts, which is the one that an emulated host reads.

A kernel that boots finds it out by the PIT. Where the emulator waits for a processor meanwhile, it counts too little,
and from then on the host's clock is several times too fast: whatever has a deadline there misses it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import time

_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
_SECONDS = 0.05


def known_rate() -> str:
    """The word that tells it to a kernel, which refines it by the HPET; empty on processors that have none."""
    return f" tsc_early_khz={_khz()}" if platform.machine() == "x86_64" else ""


@functools.cache
def _khz() -> int:
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(_RDTSC)
        start = ctypes.c_char.from_buffer(code)
        try:
            stamp = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(start))
            first = _pair(stamp)
            time.sleep(_SECONDS)
            last = _pair(stamp)
        finally:
            del start
    return round((last[1] - first[1]) * 1e6 / (last[0] - first[0]))


def _pair(stamp: ctypes._CFuncPtr) -> tuple[int, int]:
    """Nanoseconds and the counter of one moment: of several readings the one that nothing came between."""
    readings = [(time.monotonic_ns(), stamp(), time.monotonic_ns()) for _ in range(20)]
    before, count, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return (before + after) // 2, count
