"""What pyslash needs from the Python worker that its tasks run in."""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_collections() -> None:
    """Take what is there by now out of the garbage collections to come. Once a process: to be called by tasks.

    PySpark's daemon collects after each task of a worker that it keeps, and modules are most of what there is to look
    through: 50 ms a task of pyslash.
    """
    gc.collect()
    gc.freeze()
