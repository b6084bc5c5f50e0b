"""What pyslash needs from the Python worker that its tasks run in."""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_collections() -> None:
    """Exclude the objects that exist now from future garbage collections. Tasks call it; it acts once in a process.

    PySpark's daemon collects after each task of a worker that it keeps, and modules are most of what there is to look
    through: 50 ms a task of pyslash.
    """
    gc.collect()
    gc.freeze()
