"""A table in the terminal of what is at the sink, drawn again and again in its place."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from eval.pipelines.replay import Row

_WINDOWS = 8
_SECONDS_A_LINE = 5.0  # where there is no terminal


class Live:
    """Draws a line of text above the latest windows; where there is no terminal, the line alone, now and then."""

    def __init__(self) -> None:
        self._drawn = 0
        self._line_due = 0.0

    def show(self, line: str, rows: Iterable[Row]) -> None:
        """Draw again."""
        if sys.stdout.isatty():
            text = "\n".join([line, "", *table(rows)])
            above = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
            print(above + text, flush=True)
            self._drawn = text.count("\n") + 1
        elif time.monotonic() >= self._line_due:
            print(line, flush=True)
            self._line_due = time.monotonic() + _SECONDS_A_LINE

    def end(self, line: str, rows: Iterable[Row]) -> None:
        """Draw a last time; what comes next stands below."""
        self._line_due = 0
        self.show(line, rows)
        if not self._drawn:
            print("", *table(rows), sep="\n", flush=True)
        self._drawn = 0


def table(rows: Iterable[Row]) -> list[str]:
    """The latest windows, a line each; of several rows of one window and shop the last one counts."""
    latest = {row[:2]: row[2:] for row in rows}
    windows: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (start_ms, _), total in latest.items():
        windows[start_ms].append(total)
    lines = [f"{'window':10}{'shops':>8}{'orders':>10}{'revenue':>16}"]
    for start_ms in sorted(windows)[-_WINDOWS:]:
        counts, cents = zip(*windows[start_ms], strict=True)
        start = datetime.fromtimestamp(start_ms / 1000, UTC)
        lines.append(f"{start:%H:%M:%S}  {len(counts):>8}{sum(counts):>10,}{sum(cents) / 100:>16,.2f}")
    return lines
