"""What keeps a query's state from moving to plain Spark, before Spark is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyslash.errors import CheckpointError, InvalidInputError
from pyslash.migrate.export import export
from pyslash.state.backfill import Backfills
from pyslash.state.stored import StoredState
from tests.support.two_epochs import write_two_epochs

NOBODY: Any = None  # instead of a session


def test_a_backfill_that_waits_for_the_query_is_not_lost(tmp_path: Path) -> None:
    """What the state has of one goes with it."""
    write_two_epochs(tmp_path)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "1").write_text("v1")
    archive = tmp_path / "slash" / "backfills" / "archive"
    archive.mkdir(parents=True)
    told = {"name": "archive", "made": "2026-01-31T12:00:00", "late": "drop", "final_by": [[[10, 3]]]}
    (archive / "backfill.json").write_text(json.dumps(told))
    with pytest.raises(InvalidInputError, match="has yet to take the backfill archive"):
        export(NOBODY, str(tmp_path))
    last = StoredState.at(str(tmp_path)).manifest()
    Backfills(str(tmp_path)).take("archive", last.epoch, last.run)
    with pytest.raises(CheckpointError, match="offsets/1 cannot be read"):  # comes next
        export(NOBODY, str(tmp_path))
