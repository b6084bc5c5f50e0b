"""A checkpoint that is damaged or full: the query ends with an error that says so, and goes on once all is well."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from tests.faults.conftest import Record
from tests.faults.local import Rows, emitted, expected, failed_at, start
from tests.faults.tally import tally
from tests.support.stream import Stream

ENOUGH = 64 << 20
TOO_LITTLE = 4096


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "torn": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "one bit flipped": flip,
    "missing": lambda data: None,
}


def check(record: Record, name: str, stream: Stream, rows: Rows) -> None:
    rows_in = sum(map(len, stream.batches))
    assert record(tally(name, rows_in, emitted(rows), expected(stream))).exact


def test_a_damaged_checkpoint_is_refused_until_it_is_whole_again(stream: Stream, record: Record) -> None:
    rows: Rows = {}
    failed_at(stream, rows, 3)
    slash = stream.folder / "checkpoint" / "slash"
    (block_file,) = (slash / "blocks").glob("3-*.arrow")
    manifest = slash / "manifests" / "3"  # missing it would be an epoch that was never logged: its rows are read again
    damaged = [(block_file, name) for name in DAMAGES] + [(manifest, "torn"), (manifest, "one bit flipped")]
    for path, name in damaged:
        whole = path.read_bytes()
        left = DAMAGES[name](whole)
        path.unlink() if left is None else path.write_bytes(left)
        with pytest.raises(StreamingQueryException, match=path.name):
            start(stream, rows).awaitTermination(900)
        assert sorted(rows) == [0, 1, 2], name
        path.write_bytes(whole)
    assert start(stream, rows).awaitTermination(900)
    check(record, "damaged checkpoint", stream, rows)


@contextmanager
def little_room(folder: Path) -> Iterator[Callable[[], None]]:
    """A folder with room for one small file; what it gives makes room for more."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TOO_LITTLE}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a full checkpoint: this user may not mount a tmpfs, root may")
    try:
        yield lambda: subprocess.run(["mount", "-o", f"remount,size={ENOUGH}", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_checkpoint_fails_the_batch_and_a_later_start_goes_on(stream: Stream, record: Record) -> None:
    rows: Rows = {}
    with little_room(stream.folder / "checkpoint" / "slash" / "blocks") as make_room:
        for _ in range(2):  # the same again while there is no room
            with pytest.raises(StreamingQueryException, match=r"cannot be written: .*Errno 28"):
                start(stream, rows).awaitTermination(900)
        assert emitted(rows) == []
        make_room()
        assert start(stream, rows).awaitTermination(900)
    check(record, "full checkpoint", stream, rows)
