"""The folder of block files on S3, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pyarrow as pa
import pyarrow.fs as fs
import pytest

from eval.object_store import BUCKET
from pyslash.errors import CheckpointError, CorruptBlockError
from pyslash.state.files.directory import BlockDirectory, BlockFile
from tests.support.s3_server import s3_server

DATA = pa.py_buffer(bytes(range(256)) * 64)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, s3_server(patch) as location:
        yield location


@pytest.fixture
def folder(bucket: str, request: pytest.FixtureRequest) -> BlockDirectory:
    return BlockDirectory(f"{bucket}/{request.node.name}/slash/blocks")


def put(folder: BlockDirectory, name: str) -> BlockFile:
    return BlockFile(name, *folder.write(name, lambda file: file.write(DATA)), 0, "", False)


def key(folder: BlockDirectory, name: str) -> str:
    return f"{folder.location.removeprefix(f's3a://{BUCKET}/')}/{name}"


def test_a_file_comes_back_as_it_was_written(folder: BlockDirectory) -> None:
    file = put(folder, "0-1-a.arrow")
    assert folder.read(file).equals(DATA)
    assert BlockDirectory(folder.location).read(file).equals(DATA)


def test_names_and_deletion(folder: BlockDirectory) -> None:
    assert folder.names() == set()
    for name in ("0-1-a.arrow", "1-1-a.arrow", "1-1-b.arrow"):
        put(folder, name)
    folder.delete({"0-1-a.arrow", "1-1-b.arrow", "never-written.arrow"})
    assert folder.names() == {"1-1-a.arrow"}


@pytest.mark.parametrize(
    "damaged", [DATA[:-1], pa.py_buffer(b""), pa.py_buffer(b"\x01" + bytes(DATA[1:]))], ids=["torn", "empty", "flipped"]
)
def test_a_damaged_object_is_refused(folder: BlockDirectory, damaged: pa.Buffer) -> None:
    file = put(folder, "damaged.arrow")
    boto3.client("s3").put_object(Bucket=BUCKET, Key=key(folder, file.name), Body=bytes(damaged))
    with pytest.raises(CorruptBlockError, match=r"damaged\.arrow"):
        folder.read(file)


def test_a_missing_object_and_a_missing_bucket_are_told(folder: BlockDirectory) -> None:
    with pytest.raises(CheckpointError, match=r"gone\.arrow cannot be read"):
        folder.read(BlockFile("gone.arrow", 1, 0, 0, "", False))
    nowhere = BlockDirectory("s3a://no-such-bucket/slash/blocks")
    with pytest.raises(CheckpointError, match=r"no-such-bucket/slash/blocks/0\.arrow cannot be written"):
        nowhere.write("0.arrow", lambda file: file.write(DATA))


def test_pyarrow_opens_the_location_under_its_own_scheme(folder: BlockDirectory) -> None:
    put(folder, "0.arrow")
    files, path = fs.FileSystem.from_uri(folder.location.replace("s3a:", "s3:"))
    assert files.get_file_info(f"{path}/0.arrow").size == DATA.size
