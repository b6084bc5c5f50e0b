"""How large state is and who has the most of it, against rows that are counted here."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyslash import _native
from pyslash.errors import CheckpointError, SlashError
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import PlanSpec
from pyslash.state.files.block_file import write
from pyslash.state.files.checkpoint_files import LocalFiles
from pyslash.state.files.directory import BlockDirectory, BlockFile
from pyslash.state.manifest import BLOCKS, MANIFESTS, RUNS, ManifestLog
from pyslash.state.sizes import state_sizes
from pyslash.state.sizes.state_sizes import Limits, StateSizes, sizes_of
from pyslash.state.stored import StoredState
from tests.support.manifests import manifest
from tests.support.two_epochs import SIZE, SLIDE, WATERMARKS, Written, write_two_epochs

SECOND = 1_000_000
NO_LIMITS = Limits(1e9, 1 << 60)
COLUMNS = ["column string 1", "column string 1", "column int64 1"]  # the key, and what is aggregated
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("s", pa.string()), ("v", pa.int64())])
KEYS, HEAVY = 300, 10_000


def write_blocks(location: Path, aggregate: str, blocks: list[list[tuple[Any, ...]]], watermark_us: int = 0) -> None:
    """A checkpoint of one epoch, its blocks of rows (time in seconds, key, text, number)."""
    plan = "\n".join(["pyslash-plan 1", f"window {10 * SECOND} {10 * SECOND} 0", *COLUMNS, "key 1", aggregate, ""])
    identity = PlanIdentity(PlanSpec.decode(plan), ("k", "s", "v"))
    log = ManifestLog(LocalFiles(location / MANIFESTS), LocalFiles(location / RUNS))
    run, folder = log.take_over(), BlockDirectory(str(location / BLOCKS))
    name = f"0-{run}-{'a' * 32}.arrow"
    stored = folder.write(name, partial(write, plan, [sealed(plan, rows) for rows in blocks]))
    files = [BlockFile(name, *stored, 0, "a" * 32, False)]
    log.create(manifest(0, identity, run=run, blocks=[("a" * 32, 0, 0)], files=files, watermark_us=watermark_us))


def sealed(plan: str, rows: list[tuple[Any, ...]]) -> memoryview:
    """A whole block."""
    fd = os.memfd_create("arena")
    try:
        arena = _native.Arena.create(fd, 64 << 20, bytes(16))
        accumulator = _native.Accumulator(_native.Plan(plan), -(1 << 62))
        columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(SCHEMA.types[1:], 1)]
        times = pa.array([row[0] * SECOND for row in rows], pa.int64()).cast(SCHEMA.types[0])
        accumulator.add(pa.record_batch([times, *columns], schema=SCHEMA))
        head = _native.Head(accumulator.seal(arena, bytes(16), 0, 0))
        return arena.view(head.arena_offset, head.length)
    finally:
        os.close(fd)


def read(location: Path, limits: Limits = NO_LIMITS, top: int = 1_000_000, epoch: Any = None) -> StateSizes:
    return sizes_of(StoredState.at(str(location)), epoch, top, limits)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return write_two_epochs(tmp_path)


@pytest.mark.parametrize("epochs", [1, 2])
def test_rows_are_those_of_each_key_in_slices_of_open_windows(written: Written, epochs: int) -> None:
    """Nothing of windows that have closed counts; a group counts once for each of the three blocks with rows of it."""
    found = read(written.location, epoch=epochs - 1)
    blocks = [written.rows[:50], written.rows[50:100], written.rows[100:]][: epochs + 1]
    first = WATERMARKS[epochs] - SIZE + SLIDE  # the start of the first window that is open
    rows = [
        (time - time % SLIDE, key, at) for at, block in enumerate(blocks) for time, key, _ in block if time >= first
    ]
    assert {one.key[0]: one.rows for one in found.by_rows} == Counter(str(key) for _, key, _ in rows)
    parts = Counter(str(key) for _, key, _ in {*rows})
    assert {one.key[0]: one.parts for one in found.by_bytes} == parts
    assert [one.rows for one in found.by_rows] == sorted((one.rows for one in found.by_rows), reverse=True)
    assert {one.start_us // SECOND: one.parts for one in found.slices} == Counter(pane for pane, _, _ in {*rows})
    assert [one.start_us for one in found.slices] == sorted(one.start_us for one in found.slices)
    assert (found.parts, found.read_parts, found.read_rows) == (parts.total(), parts.total(), len(rows))
    assert found.bytes == found.read_bytes == sum(one.bytes for one in found.slices)
    assert 0.9 * found.bytes < sum(one.bytes for one in found.by_bytes) <= found.bytes
    assert (found.epoch, found.watermark_us) == (epochs - 1, WATERMARKS[epochs] * SECOND)
    assert (found.other_rows, found.other_bytes) == (0, 0)


def test_the_largest_come_first_and_no_more_than_are_wanted(written: Written) -> None:
    whole, few = read(written.location), read(written.location, top=2)
    assert few.by_rows == whole.by_rows[:2]
    assert len(few.by_bytes) == len(few.slices) == 2
    assert {one.bytes for one in few.slices} == {*sorted((one.bytes for one in whole.slices), reverse=True)[:2]}
    assert few.slice_count == len(whole.slices) > 2


@pytest.mark.parametrize(
    "aggregate",
    [
        *(f"aggregate {name} 2 0" for name in ("min", "max", "first", "last")),
        *(f"aggregate {name} 2 0 ignore_nulls" for name in ("first", "last")),
        "aggregate max_by 2,3 0",
        "aggregate max_by 3,2 0",
        "aggregate min_by 2,1 0",
    ],
)
def test_a_key_has_the_bytes_of_its_own_values(tmp_path: Path, aggregate: str) -> None:
    """One key's text is long; what native code keeps of it lies behind offsets of its own in each kind of state."""
    rows = [(5, f"key {at}", "x" * (HEAVY if at == 123 else 1), at) for at in range(KEYS)]
    write_blocks(tmp_path, aggregate, [rows])
    heavy, *others = read(tmp_path).by_bytes
    assert (heavy.key, heavy.rows, heavy.parts) == (["key 123"], 1, 1)
    assert HEAVY < heavy.bytes < HEAVY + 200
    assert max(one.bytes for one in others) < 200


def test_a_key_has_the_bytes_of_its_own_name(tmp_path: Path) -> None:
    long = "n" * HEAVY
    write_blocks(tmp_path, "aggregate count - 0", [[(5, key, "", 0) for key in ("a", None, long, "b")]])
    heavy, *others = read(tmp_path).by_bytes
    assert heavy.key == ["n" * 100 + "…"]
    assert HEAVY < heavy.bytes < HEAVY + 200
    assert {one.key[0] for one in others} == {"a", "b", "null"}


def test_a_key_has_the_registers_that_it_needs(tmp_path: Path) -> None:
    """Few distinct values are entries, many are words."""
    many = [(5, "many", "", random.Random(at).getrandbits(63)) for at in range(5000)]
    write_blocks(
        tmp_path, "aggregate approx_count_distinct 3 0 9", [[*many, *((5, f"k{at}", "", at) for at in range(99))]]
    )
    heavy, *others = read(tmp_path).by_bytes
    assert (heavy.key, heavy.rows) == (["many"], 5000)
    assert (1 << 9) * 6 // 8 < heavy.bytes < 600
    assert max(one.bytes for one in others) < 100


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two blocks with segments by hash prefixes, one without; keys that are heavy in one of them, or hot in all."""
    location = tmp_path_factory.mktemp("large")
    generator = random.Random(7)
    blocks = [[(5, f"{at}", "x", at) for at in generator.sample(range(60_000), size)] for size in (40_000, 40_000, 50)]
    blocks[1].append((5, "heavy", "x" * (1 << 20), 0))
    for block in blocks:
        block += [(5, "hot", "x", 0)] * 20
    write_blocks(location, "aggregate max 2 0", blocks)
    return location


@pytest.fixture(scope="module")
def whole(large: Path) -> StateSizes:
    """All of it."""
    return read(large)


def most(found: StateSizes) -> tuple[Any, Any]:
    return found.by_rows[0], found.by_bytes[0]


def test_few_keys_are_named_and_what_others_have_is_bounded(large: Path, whole: StateSizes) -> None:
    """Of every segment the three largest are named, and then added up over all of them."""
    few = read(large, top=3)
    assert most(few) == most(whole)
    assert (few.by_rows[0].key, few.by_rows[0].rows, few.by_rows[0].parts) == (["hot"], 60, 3)
    assert (few.by_bytes[0].key, few.by_bytes[0].parts) == (["heavy"], 1)
    assert (whole.other_rows, whole.other_bytes) == (0, 0)
    named = {one.key[0] for one in (*few.by_rows, *few.by_bytes)}
    others = [one for one in whole.by_rows if one.key[0] not in named]
    assert max(one.rows for one in others) <= few.other_rows <= 4
    assert max(one.bytes for one in others) <= few.other_bytes < 300


def test_the_next_key_is_told_of_where_all_are_known(written: Written) -> None:
    whole, one = read(written.location), read(written.location, top=1)
    assert one.other_rows >= whole.by_rows[1].rows
    assert one.other_bytes >= whole.by_bytes[1].bytes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes whenever somebody looks."""
    ticks = iter(range(1 << 30))
    monkeypatch.setattr(state_sizes.time, "monotonic", lambda: next(ticks))


def test_when_the_time_is_up_the_heaviest_has_been_read_and_the_others_are_bounded(
    large: Path, whole: StateSizes, clock: None
) -> None:
    part = read(large, Limits(8, 0))
    assert 0 < part.read_parts < whole.read_parts / 2
    assert part.parts == whole.parts
    assert part.slices == whole.slices
    assert part.by_bytes[0].key == ["heavy"]
    known = {one.key[0]: one.bytes for one in part.by_bytes}
    assert max(one.bytes - known.get(one.key[0], 0) for one in whole.by_bytes) <= part.other_bytes < whole.bytes / 4


def test_without_any_time_only_sizes_are_told(large: Path, whole: StateSizes, clock: None) -> None:
    found = read(large, Limits(-2, 0))
    assert (found.read_parts, found.read_rows, found.by_rows, found.by_bytes) == (0, 0, [], [])
    assert whole.by_bytes[0].bytes <= found.other_bytes < whole.bytes
    assert found.slices == whole.slices


def test_files_that_would_have_to_be_fetched_are_within_a_limit_of_their_own(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BlockDirectory, "is_local", False)
    small = min(path.stat().st_size for path in written.files)
    whole, part = read(written.location), read(written.location, replace(NO_LIMITS, fetched_bytes=small))
    assert 0 < part.read_parts < whole.read_parts
    assert part.other_bytes == sum(path.stat().st_size for path in written.files) - small
    assert part.bytes == part.read_bytes + part.other_bytes


def test_an_epoch_whose_files_are_gone_meanwhile_is_left_for_the_next(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the query had compacted files between the manifest and the first file, and had committed another epoch."""
    state, asked = StoredState.at(str(written.location)), []

    def manifest_of(self: StoredState, epoch: Any = None) -> Any:
        asked.append(epoch)
        found = real(self, epoch)
        gone = replace(found.files[0], name=f"7-1-{'b' * 32}.arrow")
        return replace(found, files=[gone]) if len(asked) == 1 else found

    real = StoredState.manifest
    monkeypatch.setattr(StoredState, "manifest", manifest_of)
    assert sizes_of(state, None, 5, NO_LIMITS).parts > 0
    assert len(asked) == 2
    written.files[0].unlink()
    with pytest.raises(CheckpointError):
        sizes_of(state, None, 5, NO_LIMITS)


def test_a_damaged_segment_is_an_error_or_wrong_and_harmless(tmp_path: Path) -> None:
    """No CRC is checked: lengths, offsets and counts of a file are believed only where they fit."""
    rows = [(5, f"key {at}", "x" * (at % 50), at) for at in range(KEYS)]
    write_blocks(tmp_path, "aggregate max_by 2,1 0", [rows])
    (path,) = (tmp_path / BLOCKS).iterdir()
    good, generator = path.read_bytes(), random.Random(11)
    body = good.index(b"key ") - 8000, good.rindex(b"xxx")
    refused = 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(generator.randrange(1, 4)):
            bad[generator.randrange(max(0, body[0]), body[1])] = generator.randrange(256)
        path.write_bytes(bad)
        try:
            assert read(tmp_path, top=10).parts <= KEYS
        except SlashError:
            refused += 1
    assert refused > 20


@pytest.mark.parametrize(("aggregate", "are_rows"), [("sum 2 0", False), ("count - 0", True)])
def test_rows_that_plain_spark_has_not_counted_are_not_called_so(aggregate: str, are_rows: bool) -> None:
    text = "\n".join(
        ["pyslash-plan 1", "window 10 10 0", "column int64 1", "column int64 1", "key 1", f"aggregate {aggregate}", ""]
    )
    plan = PlanIdentity(PlanSpec.decode(text), ("k", "v"), is_adopted=True)
    assert (state_sizes._rows_are(plan) == "rows") is are_rows
