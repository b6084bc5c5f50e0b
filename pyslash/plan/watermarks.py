"""The watermarks of an epoch."""

from __future__ import annotations

from dataclasses import dataclass

from pyslash.units import Micros


@dataclass(frozen=True)
class Watermarks:
    """What an epoch takes, and what it closes; microseconds of event time, or `NO_WATERMARK_US`.

    Rows of groups that were complete by `late_us` are late. What ends by `evicted_us` was over before the epoch, and
    none of it is emitted. What ends by `closing_us` is complete with the epoch; it is never before `evicted_us`.
    """

    late_us: Micros
    evicted_us: Micros
    closing_us: Micros
