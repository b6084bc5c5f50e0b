"""`pyslash state` over a checkpoint that is whole, and over one that is not."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyslash.cli import main
from pyslash.errors import InvalidInputError
from pyslash.inspect.state import dump
from pyslash.plan.change.identity import OF_A_PROCESSOR
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.state.files import directory
from pyslash.state.files.directory import BlockDirectory, BlockFile
from pyslash.state.stored import StoredState
from pyslash.units import Epoch
from tests.model.rows import Row, batch_of
from tests.support.two_epochs import PLAN, Group, Written, write_two_epochs

Said = pytest.CaptureFixture[str]
SECOND = 1_000_000


def dumped(path: Path) -> list[Group]:
    table = pq.read_table(path)
    assert table.column_names == ["window_start", "window_end", "k", "sum(v)", "count(*)"]
    starts = [start // SECOND for start in table.column(0).cast(pa.int64()).to_pylist()]
    return sorted(zip(starts, *(table.column(i).to_pylist() for i in (2, 3, 4)), strict=True))


def test_list_names_epochs_files_and_blocks(written: Written, capsys: Said) -> None:
    assert main(["state", "list", str(written.location)]) == 0
    epochs, blocks = capsys.readouterr().out.split("\n\n")
    run = written.files[0].name.split("-")[1]
    assert [line.split()[:4] for line in epochs.splitlines()[1:]] == [[epoch, run, "100", "0"] for epoch in "01"]
    assert "1970-01-01 00:00:15" in epochs.splitlines()[2]
    named = [line.split()[:4] for line in blocks.splitlines()[2:]]
    first, second = (path.name for path in written.files)
    assert named == [[first, "epoch", "0", "0"], [first, "epoch", "1", "0"], [second, "epoch", "0", "1"]]
    assert main(["state", "list", str(written.location), "--epoch", "0"]) == 0
    assert second not in capsys.readouterr().out


def test_dump_is_what_the_open_windows_hold(written: Written, tmp_path: Path) -> None:
    out = tmp_path / "state.parquet"
    for epoch, arguments in ((2, []), (2, ["--epoch", "1"]), (1, ["--epoch", "0"])):
        command = ["state", "dump", str(written.location), "--format", "parquet", "--out", str(out), *arguments]
        assert main(command) == 0
        assert dumped(out) == written.groups(epoch)
        assert len(written.groups(epoch)) > 10


def test_dump_of_one_window_and_one_key(written: Written, capsys: Said) -> None:
    chosen = ["--window", "1970-01-01T00:00:15", "--key", "3"]
    assert main(["state", "dump", str(written.location), *chosen]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["window_start", "window_end", "k", "sum(v)", "count(*)"]
    (expected,) = [group for group in written.groups() if group[:2] == (15, 3)]
    assert [int(word) for word in line.split()[-3:]] == list(expected[1:])
    assert main(["state", "dump", str(written.location), "--window", "15000000", "--key", "null"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_group_is_one_line_whatever_its_key_is(tmp_path: Path, capsys: Said) -> None:
    """A terminal would take some characters for orders."""
    plan = PLAN.replace("column int64 1", "column string 1", 1)

    def keys(rows: list[Row]) -> pa.RecordBatch:
        time, key, value = batch_of(rows).columns
        return pa.record_batch([time, pa.array([f"{one}\n\x1b[2J" for one in key.to_pylist()]), value], ["t", "k", "v"])

    written = write_two_epochs(tmp_path, plan, keys)
    assert main(["state", "dump", str(tmp_path)]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(written.groups())
    assert {line.split()[-3] for line in lines} == {f"{key}\\n\\x1b[2J" for key in range(7)}


def test_nan_is_a_key_as_in_spark(tmp_path: Path, capsys: Said) -> None:
    """And no other null."""
    plan = PLAN.replace("column int64 1", "column float64 1", 1)

    def keys(rows: list[Row]) -> pa.RecordBatch:
        time, key, value = batch_of(rows).columns
        found = pa.array([{0: None, 1: float("nan")}.get(one, one) for one in key.to_pylist()], pa.float64())
        return pa.record_batch([time, found, value], ["t", "k", "v"])

    write_two_epochs(tmp_path, plan, keys)
    assert main(["state", "dump", str(tmp_path), "--window", "15000000", "--key", "nan"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-3] for line in lines] == ["nan"]


def test_keys_are_those_with_the_most_rows(written: Written, capsys: Said) -> None:
    """After epoch 0 no window is open that ends by 10 s, so that rows from 5 s on count."""
    assert main(["state", "keys", str(written.location), "--epoch", "0", "--top", "3"]) == 0
    head, slices, by_rows, by_bytes = capsys.readouterr().out.split("\n\n")
    assert head.startswith("aggregation as of epoch 0: ")
    starts = [int(line.split()[1].rpartition(":")[2]) for line in slices.splitlines()[2:]]
    assert starts == [5, 10, 15]
    counts = Counter(key for time, key, _ in written.rows[:100] if time >= 5)
    title, names, *lines = by_rows.splitlines()
    assert title.startswith("keys with the most rows (any other has at most ")
    assert names.split() == ["k", "rows", "bytes", "parts"]
    assert [int(line.split()[1]) for line in lines] == [count for _, count in counts.most_common(3)]
    assert all(counts[int(line.split()[0])] == int(line.split()[1]) for line in lines)
    assert len(by_bytes.splitlines()) == 5
    assert main(["state", "keys", str(written.location), "--top", "0"]) == 2


def test_state_without_windows_or_a_watermark_is_listed_and_printed(tmp_path: Path, capsys: Said) -> None:
    """Its one window ends in a year that Python does not know."""
    plan = PLAN.replace(f"window {10 * SECOND} {5 * SECOND} 0", f"window {1 << 59} {1 << 59} 0")
    write_two_epochs(tmp_path, plan, watermark_us=NO_WATERMARK_US, emitted_us=NO_WATERMARK_US)
    assert main(["state", "list", str(tmp_path)]) == 0
    assert [line.split()[4] for line in capsys.readouterr().out.splitlines()[1:3]] == ["-", "-"]
    assert main(["state", "dump", str(tmp_path)]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines] == [str(1 << 59)] * 7


def test_dump_as_text_into_a_file(written: Written, tmp_path: Path) -> None:
    assert main(["state", "dump", str(written.location), "--out", str(tmp_path / "out")]) == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 1 + len(written.groups())


@pytest.mark.parametrize("form", ["table", "parquet"])
def test_a_dump_that_fails_leaves_no_part_of_it(written: Written, tmp_path: Path, capsys: Said, form: str) -> None:
    command = ["state", "dump", str(written.location), "--format", form, "--out"]
    assert main([*command, str(tmp_path / "nowhere" / "out")]) == 2
    assert "out cannot be written: " in capsys.readouterr().err
    out = tmp_path / "out"
    assert main([*command, str(out)]) == 0
    damaged = bytearray(written.files[1].read_bytes())
    damaged[len(damaged) // 2] ^= 4
    written.files[1].write_bytes(damaged)
    assert main([*command, str(out)]) == 1
    assert out.read_bytes() == b""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--window", "1970-01-01T00:00:03"], "start every"),
        (["--window", "1970-01-01T00:00:00"], "was emitted before epoch 1"),
        (["--window", "soon"], "is no time"),
        (["--key", "x"], "no value of the key k"),
        (["--key", "1", "--key", "2"], "2 values for a key of 1"),
        (["--epoch", "7"], "no manifest of epoch 7, only from 0 to 1"),
        (["--format", "parquet"], "needs --out"),
    ],
)
def test_what_cannot_be_dumped_is_said(written: Written, capsys: Said, arguments: list[str], told: str) -> None:
    assert main(["state", "dump", str(written.location), *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_sound_checkpoint_is_verified(written: Written, capsys: Said) -> None:
    assert main(["state", "verify", str(written.location)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 manifests, 2 files, 3 blocks, ")
    assert said.endswith(": all sound\n")


@pytest.mark.parametrize("file", [0, 1])
@pytest.mark.parametrize("fault", ["bit", "torn", "empty", "missing"])
def test_a_damaged_block_file_is_found(written: Written, capsys: Said, file: int, fault: str) -> None:
    path = written.files[file]
    good = bytearray(path.read_bytes())
    good[len(good) // 2] ^= 4
    if fault == "missing":
        path.unlink()
    else:
        path.write_bytes({"bit": good, "torn": good[:-1], "empty": b""}[fault])
    assert main(["state", "verify", str(written.location)]) == 1
    assert f"DAMAGED  {'CheckpointError' if fault == 'missing' else 'CorruptBlockError'}: epoch 1: " in (
        capsys.readouterr().out
    )
    assert main(["state", "dump", str(written.location)]) == (2 if fault == "missing" else 1)
    assert path.name in capsys.readouterr().err


def test_damage_of_an_operator_above_is_found(written: Written, capsys: Said) -> None:
    above = written.location / "slash/operator-1/slash"
    shutil.copytree(written.location / "slash", above)
    assert main(["state", "verify", str(written.location)]) == 0
    assert "\noperator 1: 2 manifests, 2 files, " in capsys.readouterr().out
    (above / written.files[0].relative_to(written.location / "slash")).write_bytes(b"")
    assert main(["state", "verify", str(written.location)]) == 1
    assert capsys.readouterr().out.endswith(" bytes: 1 damaged\n")


def test_a_damaged_manifest_is_found(written: Written, capsys: Said) -> None:
    path = written.location / "slash" / "manifests" / "0"
    path.write_bytes(path.read_bytes()[:-3])
    assert main(["state", "verify", str(written.location)]) == 1
    assert "DAMAGED  StateLostError: the checksum of " in capsys.readouterr().out


def test_a_manifest_under_the_name_of_another_is_found(written: Written, capsys: Said) -> None:
    """A restart refuses it, too."""
    manifests = written.location / "slash" / "manifests"
    (manifests / "2").write_bytes((manifests / "1").read_bytes())
    assert main(["state", "verify", str(written.location)]) == 1
    assert "2 is the manifest of epoch 1, under the name of another" in capsys.readouterr().out
    assert main(["state", "dump", str(written.location)]) == 1
    assert capsys.readouterr().err.startswith("StateLostError: ")


@pytest.mark.parametrize("action", ["list", "verify"])
def test_a_query_that_runs_deletes_an_old_manifest_meanwhile(
    written: Written, capsys: Said, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    content = BlockDirectory.content

    def late(self: BlockDirectory, name: str) -> pa.Buffer:
        if name == "0":
            (written.location / "slash" / "manifests" / "0").unlink()
        return content(self, name)

    monkeypatch.setattr(BlockDirectory, "content", late)
    assert main(["state", action, str(written.location)]) == 0
    assert "DAMAGED" not in capsys.readouterr().out


def test_a_query_that_runs_replaces_a_file_meanwhile(
    written: Written, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = BlockDirectory.read
    first, second = written.files

    def late(self: BlockDirectory, one: BlockFile) -> pa.Buffer:
        if one.name == first.name:
            last = StoredState.at(str(written.location)).manifest(Epoch(1))
            (file,) = [file for file in last.files if file.name == second.name]
            next_one = written.location / "slash" / "manifests" / "2"
            next_one.write_bytes(replace(last, epoch=Epoch(2), files=[file]).encode())
            first.unlink()
        return read(self, one)

    monkeypatch.setattr(BlockDirectory, "read", late)
    assert main(["state", "verify", str(written.location)]) == 0
    assert capsys.readouterr().out.startswith("2 manifests, 1 files, ")


def test_the_state_of_a_processor_is_no_table(written: Written) -> None:
    manifest = replace(StoredState.at(str(written.location)).manifest(None), time=OF_A_PROCESSOR)
    with pytest.raises(InvalidInputError, match="the state of a processor in Python is variables"):
        list(dump.merged(manifest, [], dump.ALL_PREFIXES))


def test_files_that_no_manifest_names_are_no_damage(written: Written, capsys: Said) -> None:
    first, _ = written.files
    lost = f"9-1-{'b' * 32}.arrow"
    first.with_name(lost).write_bytes(b"half a fi")
    for folder in (first.parent, written.location / "slash" / "manifests"):
        for foreign in ("README", ".nfs0001", "²", "x-y-z.arrow"):
            (folder / foreign).write_bytes(b"nothing of ours")
    (written.location / "slash" / "manifests" / "0").unlink()
    assert main(["state", "verify", str(written.location)]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("unnamed  ")] == [
        f"unnamed  {lost}: of a batch that failed or is under way"
    ]


def test_a_savepoint_that_cannot_be_made_or_found_is_an_error_of_the_arguments(written: Written, capsys: Said) -> None:
    place = str(written.location)
    assert main(["state", "save", place, "monday"]) == 2
    assert "has no committed batch" in capsys.readouterr().err
    assert main(["state", "fork", place, "monday", "--to", f"{place}-fork"]) == 2
    assert main(["state", "drop", place, "monday"]) == 2
    assert capsys.readouterr().err.count("InvalidInputError: ") == 2


@pytest.mark.parametrize("action", ["list", "dump", "keys", "verify"])
def test_a_folder_without_state_is_no_checkpoint(tmp_path: Path, capsys: Said, action: str) -> None:
    assert main(["state", action, str(tmp_path)]) == 2
    assert "holds no state of pyslash" in capsys.readouterr().err
    assert main(["state", action, "nosuch://host/checkpoint"]) == 2
    assert "cannot be reached by pyarrow" in capsys.readouterr().err


def test_any_file_system_that_a_checkpoint_may_be_on(
    written: Written, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, _ = directory.open_location(str(written.location))
    opened = []

    def remote(location: str) -> tuple[object, str]:
        opened.append(location)
        return local, location.replace("s3a://bucket", str(written.location))

    monkeypatch.setattr(directory, "open_location", remote)
    assert main(["state", "verify", "s3a://bucket/"]) == 0
    of_the_next = [f"s3a://bucket/slash/operator-1/slash/{folder}" for folder in ("manifests", "blocks")]
    assert opened == ["s3a://bucket/slash/manifests", "s3a://bucket/slash/blocks", *of_the_next]
    assert "all sound" in capsys.readouterr().out


def test_epochs_are_listed_though_their_state_is_in_memory_alone(written: Written, capsys: Said) -> None:
    state = StoredState.at(str(written.location))
    for epoch in state.epochs():
        held = replace(state.manifest(epoch), files=[], in_checkpoint=False)
        (written.location / "slash" / "manifests" / str(epoch)).write_bytes(held.encode())
    assert main(["state", "list", str(written.location)]) == 0
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()[1:3]] == [str(epoch) for epoch in state.epochs()[:2]]
    assert "in memory alone" in said


def test_a_pane_of_sessions_is_a_number_and_no_time(tmp_path: Path, capsys: Said) -> None:
    head, _, *rest = PLAN.splitlines()
    plan = "\n".join([head, "window 1 1 0", "session 5000000 0", *rest, ""])
    write_two_epochs(tmp_path, plan)
    assert main(["state", "list", str(tmp_path)]) == 0
    _, blocks = capsys.readouterr().out.split("\n\n")
    assert all(line.split()[-2:] == ["0", "0"] for line in blocks.splitlines()[2:])
