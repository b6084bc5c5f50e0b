"""Which backfills are due to a query: what its records and manifests tell, and what nobody has to ask again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.errors import InvalidInputError, StateLostError
from pyslash.state.backfill import Backfills


def manifest(epoch: int, run: int, is_of_spark: bool = False) -> Any:
    return SimpleNamespace(epoch=epoch, run=run, is_of_spark=is_of_spark)


def looked(*manifests: Any) -> Any:
    return {one.epoch: one for one in manifests}.get


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """That of a backfill which a query has yet to take."""
    made = tmp_path / "slash" / "backfills" / "archive"
    made.mkdir(parents=True)
    record = {
        "name": "archive",
        "made": "2026-01-31T12:00:00",
        "late": "drop",
        "final_by": [[[10, 3], [20, 4]], [[15, 5]]],
    }
    (made / "backfill.json").write_text(json.dumps(record))
    return made


def names(backfills: Backfills, last: Any, look: Any, settled: set[str] | None = None) -> list[str]:
    return [one.name for one in backfills.due(last, look, set() if settled is None else settled)]


def test_one_is_due_until_a_manifest_of_the_run_that_took_it_is_there(tmp_path: Path, folder: Path) -> None:
    backfills = Backfills(str(tmp_path))
    assert names(backfills, None, looked()) == ["archive"]
    archive = backfills.read("archive")
    assert archive.groups == 7
    watermarks = [(9, 9), (10, 9), (20, 15), (9, 15)]
    assert [archive.late_groups(one) for one in watermarks] == [0, 3, 7, 5]
    backfills.take("archive", 3, 7)
    backfills.take("archive", 3, 7)  # the update was tried again
    assert names(backfills, manifest(2, 7), looked(manifest(2, 7))) == ["archive"]
    assert names(backfills, manifest(3, 7), looked(manifest(3, 7))) == []
    assert names(backfills, manifest(3, 8), looked(manifest(3, 8))) == ["archive"]  # that run failed before it
    of_spark = manifest(3, 8, is_of_spark=True)
    assert names(backfills, of_spark, looked(of_spark)) == []  # which has had it, and gives it back
    assert names(backfills, manifest(200, 7), looked(manifest(200, 7))) == []  # its manifest has been purged
    backfills.take("archive", 4, 8)
    assert names(backfills, manifest(3, 7), looked(manifest(3, 7))) == []  # it came late, of a run that was replaced
    both = [manifest(3, 7), manifest(5, 9)]
    assert names(backfills, both[-1], looked(*both)) == []
    assert names(backfills, manifest(3, 9), looked(manifest(3, 9))) == ["archive"]
    assert backfills.taken_in("archive", manifest(5, 8), looked(manifest(4, 8))) == 4


def test_what_is_settled_is_not_looked_at_again(tmp_path: Path, folder: Path) -> None:
    backfills, settled = Backfills(str(tmp_path)), set[str]()
    backfills.take("archive", 3, 7)
    assert names(backfills, manifest(3, 7), looked(manifest(3, 7)), settled) == []
    assert settled == {"archive"}

    def nobody_asks(epoch: int) -> Any:
        raise AssertionError(epoch)

    assert names(backfills, manifest(9, 7), nobody_asks, settled) == []
    shutil.rmtree(folder)
    assert names(backfills, manifest(9, 7), nobody_asks, settled) == []
    assert settled == set()


def test_a_copy_beside_one_is_none(tmp_path: Path, folder: Path) -> None:
    backfills = Backfills(str(tmp_path))
    shutil.copytree(folder, folder.with_name("archive.bak"))
    assert [one.name for one in backfills.all()] == ["archive"]
    assert names(backfills, None, looked()) == ["archive"]
    shutil.copytree(folder, folder.with_name("archive-2"))  # it would be taken as what it is a copy of, once more
    with pytest.raises(StateLostError, match="it is the backfill archive, copied"):
        names(backfills, None, looked())


def test_one_that_was_refused_is_due_no_more(tmp_path: Path, folder: Path) -> None:
    backfills = Backfills(str(tmp_path))
    assert backfills.refusal("archive") is None
    backfills.refuse("archive", "too late")
    assert names(backfills, None, looked()) == []
    assert backfills.refusal("archive") == "too late"
    assert [one.name for one in backfills.all()] == ["archive"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"name": "a", "made": "", "late": "", "final_by": [1]}'])
def test_a_marker_that_is_damaged_is_an_error(tmp_path: Path, folder: Path, content: str) -> None:
    (folder / "backfill.json").write_text(content)
    with pytest.raises(StateLostError, match="is not what was written"):
        Backfills(str(tmp_path)).read("archive")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 65])
def test_a_name_is_that_of_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="is no name of a backfill"):
        Backfills(str(tmp_path)).has(name)
