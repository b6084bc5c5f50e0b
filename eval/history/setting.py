"""What one invocation measures, and in which folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Setting:
    """Sizes, and the settings of both applications; `seconds`: of micro-batches before anything is done, and of reads.

    `nice`: of the application beside the query's. `same_application`: there is none for the backfill.
    """

    folder: Path
    rows: int
    keys: int
    groups: int
    seconds: float
    nice: int
    same_application: bool
    conf: dict[str, str]
