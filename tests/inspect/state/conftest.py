"""A checkpoint to look into."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.two_epochs import Written, write_two_epochs


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Of two epochs, at a place whose name no URI takes as it is."""
    return write_two_epochs(tmp_path / "50% of #1")
