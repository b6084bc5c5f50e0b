"""What pyslash needs from the Python worker that its tasks run in."""

from __future__ import annotations

import ctypes
import gc
from functools import cache

# Of glibc's mallopt().
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3

_KEPT_BYTES = 256 << 20
_LARGEST_KEPT_BYTES = 64 << 20


@cache
def spare_collections() -> None:
    """Exclude the objects that exist now from future garbage collections. Tasks call it; it acts once in a process.

    PySpark's daemon collects after each task of a worker that it keeps, and modules are most of what there is to look
    through: 50 ms a task of pyslash.
    """
    gc.collect()
    gc.freeze()


@cache
def keep_freed_memory() -> None:
    """Leave what a task frees to the next one, up to 256 MiB. Once a process: to be called by tasks.

    A task's groups are tens of MiB, which malloc would return to the kernel at its end: to get them back page by page
    took a sixth of the CPU time of a task that reads Parquet. Other C libraries than glibc are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
