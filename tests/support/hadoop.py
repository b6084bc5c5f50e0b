"""The jars of Hadoop that `scripts/hadoop.sh` has fetched for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "build" / "hadoop"


def fetched(part: str) -> str:
    """The class path of a part; a skip that says so where it could not be fetched."""
    if not (FOLDER / part / ".complete").exists():
        pytest.skip(f"no build/hadoop/{part} (scripts/hadoop.sh fetches it from Maven Central), so this was not tested")
    return f"{FOLDER / part}/*"
