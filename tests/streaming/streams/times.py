"""Draws event times."""

from __future__ import annotations

import random

MICROS = 1_000_000


class Times:
    """Event times: mostly near the front, some late, some exactly at a window's end or at a watermark.

    `calm`: none is late, with a delay of 10 s. All are multiples of `grain`, in microseconds.
    """

    def __init__(
        self, rng: random.Random, start: float, delay: float, slide: float, calm: bool, grain: int = 1
    ) -> None:
        self._rng = rng
        self._grain = grain
        self.calm = calm
        self.first = self._front = int(start * MICROS)
        self._delay = int(delay * MICROS)
        self._slide = int(slide * MICROS)
        self._latest = self._front
        self._marks = [self._front - self._delay]

    def advance(self, seconds: float) -> None:
        """The batch has ended."""
        self._front += int(seconds * MICROS)
        self._marks = [*self._marks[-1:], self._latest // 1000 * 1000 - self._delay]

    def next(self) -> int | None:
        """The time of one row, in microseconds."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.04:
            return None
        if self.calm:
            time = self._front + int(rng.uniform(0, 8) * MICROS)
        elif kind < 0.25:
            time = self._front - int(rng.uniform(0, 40) * MICROS)
        elif kind < 0.5:
            close = rng.choice((self._front, *self._marks))
            time = rng.choice((close, close // self._slide * self._slide))
            time += rng.choice((0, 0, -1, 1, -1000, 1000, -self._slide))
        else:
            time = self._front + int(rng.uniform(-8, 8) * MICROS)
        time -= time % self._grain
        self._latest = max(self._latest, time)
        return time
