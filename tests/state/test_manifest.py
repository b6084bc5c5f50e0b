"""Manifests and run numbers over a store that lies, and beside drivers that were replaced."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from pyslash.errors import (
    CheckpointError,
    FencedError,
    LateManifestError,
    PlanMismatchError,
    RewoundCheckpointError,
    StateLostError,
)
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import PlanSpec
from pyslash.state.files.checkpoint_files import LocalFiles
from pyslash.state.manifest import Manifest, ManifestLog
from tests.support.manifests import manifest

PLAN = PlanIdentity(
    PlanSpec.decode("pyslash-plan 1\nwindow 10 10 0\ncolumn int64 1\ncolumn int64 1\nkey 1\naggregate sum 2 1\n"),
    ("k", "v"),
)
MANIFEST = manifest(0, PLAN, watermark_us=10, rows=3, times=[(3, 1, 5, 2.5)], blocks=[("a" * 32, 64, 7)])


class Faulty(LocalFiles):
    """A folder whose next `create` does as it is told; afterwards it is sound."""

    def __init__(self, folder: Path, fault: str = "") -> None:
        super().__init__(folder)
        self.fault = fault

    def create(self, name: str, content: bytes) -> None:
        fault, self.fault = self.fault, ""
        if fault == "full":
            raise OSError(errno.ENOSPC, "no space left")
        if fault != "lost":
            super().create(name, content[: len(content) // 2] if fault == "torn" else content)
        if fault == "unacknowledged":
            raise OSError(errno.EIO, "the connection was lost")


def log(folder: Path, fault: str = "", run_fault: str = "") -> ManifestLog:
    return ManifestLog(Faulty(folder / "manifests", fault), Faulty(folder / "runs", run_fault))


@pytest.mark.parametrize("fault", ["full", "lost", "torn"])
def test_a_manifest_that_is_not_there_whole_fails_the_batch_and_a_retry_works(tmp_path: Path, fault: str) -> None:
    written = log(tmp_path, fault)
    ours = replace(MANIFEST, run=written.take_over())
    with pytest.raises(CheckpointError):
        written.create(ours)
    assert written.read(0, PLAN) is None
    written.create(ours)
    assert written.read(0, PLAN) == ours


@pytest.mark.parametrize("fault", ["full", "lost", "torn"])
def test_a_run_that_cannot_be_written_is_not_begun(tmp_path: Path, fault: str) -> None:
    written = log(tmp_path, run_fault=fault)
    with pytest.raises(CheckpointError):
        written.take_over()
    run = written.take_over()
    assert (tmp_path / "runs" / str(run)).exists()


def test_a_driver_that_was_replaced_neither_writes_nor_takes_over_again(tmp_path: Path) -> None:
    older, newer = log(tmp_path), log(tmp_path)
    held = older.take_over()
    run = newer.take_over()
    assert (newer.run_before, run > held) == (held, True)
    with pytest.raises(FencedError, match=f"run {held} .* replaced by run {run}"):
        older.create(MANIFEST)
    with pytest.raises(FencedError, match=f"run {held} .* replaced by run {run}"):
        older.take_over(held)
    newer.create(MANIFEST)


def test_a_driver_is_not_replaced_by_its_own_earlier_try(tmp_path: Path) -> None:
    driver = log(tmp_path)
    held = driver.take_over()
    assert isinstance(driver._runs, Faulty)
    driver._runs.fault = "unacknowledged"
    with pytest.raises(CheckpointError):
        driver.take_over(held)
    assert driver.take_over(held) > driver.run_before > held


def test_the_manifest_of_a_driver_that_was_replaced_is_told_apart(tmp_path: Path) -> None:
    older, newer = log(tmp_path), log(tmp_path)
    older.take_over()
    # The older one has seen no later run, then stands still; its manifest arrives after it was replaced.
    run = newer.take_over()
    Faulty(tmp_path / "manifests").create("0", MANIFEST.encode())
    with pytest.raises(LateManifestError, match=f"run {run} has replaced"):
        newer.create(replace(MANIFEST, run=run))


def test_a_store_that_says_yes_while_another_driver_takes_the_name(tmp_path: Path) -> None:
    class Overtaken(Faulty):
        def create(self, name: str, content: bytes) -> None:
            super().create(name, b"another driver's")

    first = ManifestLog(Faulty(tmp_path / "manifests"), Overtaken(tmp_path / "runs"))
    with pytest.raises(FencedError, match="another driver has begun run"):
        first.take_over()
    assert [path.read_bytes() for path in (tmp_path / "runs").iterdir()] == [b"another driver's"]


def test_a_checkpoint_that_was_put_back_knows_no_run_twice(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first = log(tmp_path).take_over()
    copy = {path.name: path.read_bytes() for path in runs.iterdir()}
    second = log(tmp_path).take_over()
    for path in runs.iterdir():
        path.unlink()
    for name, content in copy.items():
        (runs / name).write_bytes(content)
    third = log(tmp_path)
    assert third.take_over() > second > first
    assert third.run_before == first


def test_a_run_whose_checkpoint_was_put_back_writes_nothing_more(tmp_path: Path) -> None:
    written = log(tmp_path)
    run = written.take_over()
    (tmp_path / "runs" / str(run)).unlink()
    with pytest.raises(RewoundCheckpointError, match=f"{run}, the file of this run of the query, is gone"):
        written.create(MANIFEST)
    assert written.epochs() == []


def test_of_two_drivers_that_begin_at_the_same_moment_one_goes_on(tmp_path: Path) -> None:
    other = log(tmp_path)

    class Interrupted(Faulty):
        def create(self, name: str, content: bytes) -> None:
            super().create(name, content)
            other.take_over()

    first = ManifestLog(Faulty(tmp_path / "manifests"), Interrupted(tmp_path / "runs"))
    with pytest.raises(FencedError, match="replaced by run"):
        first.take_over()
    other.create(MANIFEST)


def test_what_is_not_ours_is_no_manifest_and_no_run(tmp_path: Path) -> None:
    written = log(tmp_path)
    run = written.take_over()
    written.create(MANIFEST)
    for folder in ("manifests", "runs"):
        for name in ("README", ".nfs0001", ".snapshot", "²", "007", "9.tmp", "-3", "٣"):
            (tmp_path / folder / name).write_bytes(b"")
        (tmp_path / folder / str(1 << 62)).mkdir()
    assert written.epochs() == [0]
    again = log(tmp_path)
    again.take_over()
    assert again.run_before == run


def test_what_was_changed_is_no_manifest(tmp_path: Path) -> None:
    encoded = MANIFEST.encode()
    for at in range(len(encoded) - 1):
        with pytest.raises(StateLostError):
            Manifest.decode(encoded[:at] + bytes([encoded[at] ^ 1]) + encoded[at + 1 :], "0")
    assert Manifest.decode(encoded, "0") == MANIFEST


def test_a_manifest_of_another_query_is_refused_and_says_why(tmp_path: Path) -> None:
    written = log(tmp_path)
    written.take_over()
    written.create(MANIFEST)
    with pytest.raises(PlanMismatchError, match=r"dropped: sum\(v\)\n  an aggregate added: sum\(w\)\n"):
        written.read(0, replace(PLAN, columns=("k", "w")))
