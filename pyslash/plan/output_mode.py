"""When an aggregation's groups reach the sink: Spark's output modes."""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum

from pyslash.errors import InvalidInputError


class OutputMode(StrEnum):
    """As `outputMode()` of a writer takes them."""

    APPEND = "append"
    """A group once: when the watermark has passed the end of its window."""

    UPDATE = "update"
    """Every group that the micro-batch has rows of, with all that it holds by then."""

    COMPLETE = "complete"
    """All groups that there are. None is late and none is dropped: there is no watermark."""

    @classmethod
    def parse(cls, text: str) -> OutputMode:
        """As a user writes it, in any case of letters.

        Raises:
            InvalidInputError: there is no such mode.
        """
        name = str(text).strip().lower()
        if name in list(cls):
            return cls(name)
        near = get_close_matches(name, list(cls), 1)
        hint = f"; did you mean {str(near[0])!r}?" if near else ""
        raise InvalidInputError(f"the output mode is {text!r}, which is none of {', '.join(cls)}{hint}")
