"""What tasks ask of the Python worker, in processes of their own."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

_PAGES = 8192
_FAULTS = f"""
import resource
from pyslash.ingest.worker import keep_freed_memory
keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    one = bytearray({_PAGES} * 4096)
    one[::4096] = bytes([1]) * {_PAGES}
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults(), faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library is not glibc")
def test_what_a_task_frees_is_there_for_the_next_one() -> None:
    done = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True, timeout=900)
    first, second = map(int, done.stdout.split())
    assert first > _PAGES * 0.9
    assert second < _PAGES / 100
