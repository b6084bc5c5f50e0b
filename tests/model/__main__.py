"""`python -m tests.model NUMBER [DURABILITY [STRATEGY [MODE]]]`: one schedule, step by step."""

from __future__ import annotations

import sys

from tests.model.schedule import KINDS, Schedule
from tests.model.spark import Query, violation


def show(query: Query) -> None:
    print("\n".join(query.world.trace))


def main(number: int, durability: str = "checkpoint", strategy: str = "merge", mode: str = "require") -> int:
    schedule = Schedule.numbered(number, KINDS[mode])
    print(schedule)
    found = violation(schedule, show, durability, strategy, mode)
    print(f"violation: {found}" if found else "every promise held")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
