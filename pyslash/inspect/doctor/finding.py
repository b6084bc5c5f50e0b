"""What a check found."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(enum.Enum):
    """`ABSENT`: not installed, and not needed."""

    OK = "ok"
    ABSENT = "absent"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Finding:
    """`fix` says what to do, and is empty where there is nothing to do."""

    check: str
    status: Status
    found: str
    fix: str = ""

    def to_record(self) -> dict[str, str]:
        """For JSON."""
        return {"check": self.check, "status": self.status.value, "found": self.found, "fix": self.fix}
