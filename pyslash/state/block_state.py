"""What becomes of a block in an arena."""

from __future__ import annotations

from enum import IntEnum


class BlockState(IntEnum):
    """The third field of `_native.Arena.blocks`: a block begins as allocated, and goes when it is freed."""

    ALLOCATED = 1  # its owner writes it
    PUBLISHED = 2  # it is complete, and no commit has named it
    COMMITTED = 3  # it is part of the query's state
    OVERTAKEN = 4  # its owner still writes it, and its epoch was committed without it
