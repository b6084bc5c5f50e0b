"""Times of Spark's as they are, whatever the zone of a task's host."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def utc() -> Iterator[None]:
    """Have this process be in UTC: PySpark makes local times of Spark's, and in many zones there is an hour twice."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
