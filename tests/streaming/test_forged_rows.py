"""Rows of Spark's in a checkpoint that somebody has forged: CRCs are right, and fields point outside of their rows."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash._native import crc32c
from pyslash.driver.start import hook
from pyslash.state.files import block_file
from pyslash.state.files.block_file import StoredBlock
from pyslash.state.files.block_head import ENTRY, HEADER_BYTES, rechecked
from pyslash.state.manifest import Manifest
from tests.faults.local import kill_agents
from tests.streaming.test_joins import add, made, run, within
from tests.support.ran import Ran

# A field of 18 bytes, as the longest name has, and where it is in its row, struct or array.
FIELD = re.compile(rb"\x12\0\0\0([\x08-\xff]\0)\0\0")
PLACES: dict[str, Callable[[re.Match[bytes]], bytes]] = {
    "near": lambda found: b"\x12\0\0\0" + found[1][:1] + b"\x40\0\0",
    "far": lambda found: b"\x12\0\0\0" + found[1] + b"\0\x7f",
    "long": lambda found: b"\xff\xff\xff\x7f" + found[1] + b"\0\0",
}


def of_struct(left: DataFrame, right: DataFrame) -> DataFrame:
    """Keys that native code does not know."""
    return left.groupBy(F.window("ts", "10 seconds"), F.struct("k", "name").alias("key")).count()


def of_list(left: DataFrame, right: DataFrame) -> DataFrame:
    """Buffers of Spark's own code, which hold a row within."""
    return left.groupBy(F.window("ts", "10 seconds")).agg(F.sort_array(F.collect_list("name")))


def of_counts(left: DataFrame, right: DataFrame) -> DataFrame:
    """Buffers which hold rows, one behind the other."""
    return left.groupBy(F.window("ts", "10 seconds")).agg(F.mode("name", deterministic=True))


QUERIES = {"rows of a join": within("full_outer"), "keys": of_struct, "a list": of_list, "counts": of_counts}


def forged_block(stored: StoredBlock, change: Callable[[bytes], bytes]) -> bytes:
    """The whole block, its segments changed, under the CRCs that they have then."""
    head, parts = bytearray(stored.head), []
    for index, (segment, data) in enumerate(stored.segments):
        parts.append((segment.offset, change(bytes(memoryview(data)))))
        place = HEADER_BYTES + index * ENTRY.size
        entry = list(ENTRY.unpack_from(head, place))
        entry[4] = crc32c(parts[-1][1])
        ENTRY.pack_into(head, place, *entry)
    whole = bytearray(max(offset + len(data) for offset, data in parts))
    whole[: len(head)] = rechecked(head)
    for offset, data in parts:
        whole[offset : offset + len(data)] = data
    return bytes(whole)


def forge(checkpoint: Path, change: Callable[[bytes], bytes]) -> int:
    """Changes the blocks that the last manifest names, and the manifest; how many files are others now."""
    slash = checkpoint / "slash"
    newest = max((slash / "manifests").iterdir(), key=lambda file: int(file.name))
    manifest, files, forged = Manifest.decode(newest.read_bytes(), newest.name), [], 0
    for file in manifest.files:
        path = slash / "blocks" / file.name
        stored = block_file.decode(pa.py_buffer(path.read_bytes()), file.name)
        blocks = [forged_block(block, change) for block in stored if block.segments]
        data = block_file.encode(manifest.plan, blocks).to_pybytes()
        forged += data != path.read_bytes()
        path.write_bytes(data)
        files.append(replace(file, bytes=len(data), crc=crc32c(data)))
    newest.write_bytes(replace(manifest, files=files).encode())
    return forged


@pytest.mark.parametrize(
    ("name", "place"),
    [("rows of a join", "near"), ("rows of a join", "far"), ("keys", "far"), ("a list", "near"), ("counts", "long")],
)
def test_no_field_is_read_outside_of_its_row(spark: SparkSession, tmp_path: Path, name: str, place: str) -> None:
    left, right = made(spark, tmp_path, batches=2)

    def again() -> Ran:
        return run(spark, tmp_path, QUERIES[name], "require", durability="checkpoint")

    again()
    runner: Any = list(hook._runners.values())[-1][1]
    kill_agents(runner.operators[0].state.coordinator)  # what they hold is in the files
    assert forge(tmp_path / "checkpoint-require", lambda data: FIELD.sub(PLACES[place], data)) > 0
    for stream in (left, right):
        add(stream, random.Random(3), 1060)
    with pytest.raises(StreamingQueryException, match=r"(?s)no row of Spark's|a list of buffers ends within"):
        again()
