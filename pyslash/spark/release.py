"""Which release of PySpark this is."""

from __future__ import annotations

import pyspark


def is_from(major: int, minor: int) -> bool:
    """Whether it is this release or a later one."""
    found = pyspark.__version__.split(".")[:2]
    return (int(found[0]), int(found[1])) >= (major, minor)
