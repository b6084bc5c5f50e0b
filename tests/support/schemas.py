"""The schemas of others' formats, which `scripts/schemas.sh` has fetched for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "build" / "schemas"


def fetched(pattern: str) -> Path:
    """The one file of that name; a skip that says so where it could not be fetched."""
    found = sorted(FOLDER.glob(pattern))
    if not (FOLDER / ".complete").exists() or not found:
        pytest.skip(f"no {pattern} in build/schemas (scripts/schemas.sh fetches it), so this was not tested")
    return found[-1]
