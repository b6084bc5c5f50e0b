"""The folder of block files: what is ours in it, and what a link or a name of somebody else's does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyslash.errors import CheckpointError
from pyslash.state.durable import DurableState
from pyslash.state.files.directory import BlockDirectory, numbers, run_of

HOLDER = "a" * 32
FOREIGN = ["README", ".nfs0001", ".snapshot", "x-y-z.arrow", "²-1-b.arrow", "1-²-b.arrow", f"01-1-{HOLDER}.arrow"]


@pytest.mark.parametrize(
    ("name", "run"),
    [
        (f"7-3-{HOLDER}.arrow", 3),
        (f"0-{(1 << 63) - 1}-{HOLDER}.arrow", (1 << 63) - 1),
        ("7-3-replanned-12.arrow", 3),
        ("7-3-adopted-12-0.arrow", 3),
        (f".7-3-{HOLDER}.arrow.{'0' * 32}", 3),
        (f".7-3-{HOLDER}.arrow", None),
        (f"7-3-{HOLDER}.arrow.{'0' * 32}", None),
        ("7-3-notes.arrow", None),
        (f"7-3-{HOLDER}.arrow\n", None),
        *((name, None) for name in FOREIGN),
    ],
)
def test_a_block_file_is_told_by_all_of_its_name(name: str, run: int | None) -> None:
    assert run_of(name) == run


def test_a_number_is_told_by_all_of_its_name() -> None:
    assert numbers(["10", "9", "0", "²", "٣", "007", "+1", " 1", "1_0", "9" * 30, "1.tmp", ""]) == [0, 9, 10]


def test_a_sweep_deletes_nothing_that_is_not_ours(tmp_path: Path) -> None:
    kept = {*FOREIGN, f"5-9-{HOLDER}.arrow", f"1-1-{HOLDER}.arrow"}
    swept = {f"2-1-{HOLDER}.arrow", f".2-1-{HOLDER}.arrow.{'0' * 32}"}
    for name in kept | swept:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "7-1-replanned-0.arrow").mkdir()
    DurableState(BlockDirectory(str(tmp_path)), []).sweep({f"1-1-{HOLDER}.arrow"}, run=9)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "7-1-replanned-0.arrow"}


def test_a_link_with_the_name_of_a_block_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, folder = tmp_path / "of somebody else", tmp_path / "blocks"
    target.write_bytes(b"precious")
    folder.mkdir()
    (folder / "0.arrow").symlink_to(target)
    BlockDirectory(str(folder)).write("0.arrow", lambda file: file.write(b"ours"))
    assert target.read_bytes() == b"precious"
    assert (folder / "0.arrow").read_bytes() == b"ours"
    assert not (folder / "0.arrow").is_symlink()
    assert os.listdir(folder) == ["0.arrow"]


def test_a_file_is_seen_whole_or_not_at_all(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def fill(file: object) -> None:
        seen.append(os.listdir(tmp_path))
        raise OSError("the disk is gone")

    with pytest.raises(CheckpointError, match="the disk is gone"):
        BlockDirectory(str(tmp_path)).write(f"0-1-{HOLDER}.arrow", fill)
    assert [run_of(name) for name in seen[0]] == [1]
    assert seen[0] != [f"0-1-{HOLDER}.arrow"]
    assert os.listdir(tmp_path) == []
