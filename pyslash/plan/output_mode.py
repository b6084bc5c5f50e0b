"""When an aggregation's groups reach the sink: Spark's output modes."""

from __future__ import annotations

from enum import StrEnum


class OutputMode(StrEnum):
    """As `outputMode()` of a writer takes them."""

    APPEND = "append"
    """A group once: when the watermark has passed the end of its window."""

    UPDATE = "update"
    """Every group that the micro-batch has rows of, with all that it holds by then."""

    COMPLETE = "complete"
    """All groups that there are. None is late and none is dropped: there is no watermark."""
