"""What a sink holds against what it has to hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from eval.pipelines.replay import Row


@dataclass(frozen=True)
class Verdict:
    """Rows that the sink has, lacks, has once more than it should, and has although they are none."""

    rows: int
    lost: int
    doubled: int
    wrong: int

    @classmethod
    def of(cls, found: Counter[Row], expected: Counter[Row]) -> Verdict:
        """Compare two multisets of rows.

        >>> Verdict.of(Counter({1: 2, 2: 1, 4: 1}), Counter({1: 1, 2: 1, 3: 1}))
        Verdict(rows=4, lost=1, doubled=1, wrong=1)
        """
        more = found - expected
        wrong = sum(count for row, count in more.items() if row not in expected)
        return cls(found.total(), (expected - found).total(), more.total() - wrong, wrong)

    @property
    def exact(self) -> bool:
        """Whether every row is there once."""
        return self.complete and self.doubled == 0

    @property
    def complete(self) -> bool:
        """Whether every row is there, once or more often: all that a sink without transactions can give."""
        return self.lost == self.wrong == 0

    def __str__(self) -> str:
        return f"{self.rows:,} rows: {self.lost} lost, {self.doubled} doubled, {self.wrong} wrong"
