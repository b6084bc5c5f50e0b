"""Manifests that somebody has forged: their checksum matches, and any field may hold anything."""

from __future__ import annotations

import copy
import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslash.errors import CheckpointError, StateLostError
from pyslash.plan.change.identity import PlanIdentity, differences
from pyslash.plan.spec import PlanSpec
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.files.checkpoint_files import LocalFiles
from pyslash.state.files.directory import BlockDirectory, BlockFile
from pyslash.state.manifest import _SEED, FORMAT, Manifest, ManifestLog
from tests.support.manifests import manifest

PLAN = PlanIdentity(
    PlanSpec.decode("pyslash-plan 1\nwindow 10 10 0\ncolumn int64 1\ncolumn int64 1\nkey 1\naggregate sum 2 1\n"),
    ("k", "v"),
)
A, B = "a" * 32, "b" * 32
AGENT = AgentDescriptor(7, 70, 5, 1 << 30, A, "/tmp/a.sock", "127.0.0.1", 4711, "boot", "/tmp/a.log", "")
MANIFEST = manifest(
    3,
    PLAN,
    watermark_us=10,
    rows=3,
    times=[(3, 1, 5, 2.5)],
    blocks=[(A, 64, 7), (B, 64, 9)],
    agents=[AGENT],
    files=[BlockFile(f"3-1-{A}.arrow", 100, 5, -7, A, True), BlockFile("2-1-adopted-4-0.arrow", 9, 5, 7, "", False)],
    standbys={A: B},
    held={A: (10, 900)},
    since=[0, 2],
)
OTHER = PlanIdentity(PlanSpec.decode(PLAN.text.replace("sum", "max")), PLAN.columns)
ODD: list[Any] = [
    None, True, 0, -1, 1 << 62, 1 << 63, 1 << 70, -(1 << 63), 0.5, 1e300, "", "x", "../../etc/passwd", "3-1-../x.arrow",
    "\ud800", "\0", "a" * 32, "A" * 32, [], [[]], [0], {}, {"": 0}, "3-1-a.arrow\n", "²-1-a.arrow", PLAN.text,
    "pyslash-plan 1\nwindow 10 10 0\ncolumn int64 1\nkey 2\n",
]  # fmt: skip


def sealed(text: str) -> bytes:
    """As `Manifest.encode` does it."""
    body = text.encode()
    return f"pyslash-manifest {FORMAT} {zlib.crc32(body, _SEED):08x}\n".encode() + body + b"\n"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of everything in a record."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def mutated(record: Any, chance: random.Random) -> Any:
    """A copy with one to three changes: something else in a place, nothing, twice, or under another name."""
    changed = {"": copy.deepcopy(record)}
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(list(places(changed)))[1:]
        holder: Any = changed
        *way, last = ("", *path)
        for key in way:
            holder = holder[key]
        match chance.randrange(6):
            case 0 if path:
                del holder[last]
            case 1 if isinstance(holder, list):
                holder.append(holder[last])
            case 2 if path and isinstance(holder, dict):
                holder[chance.choice([*holder, "x", ".."])] = holder.pop(last)
            case 3 if isinstance(holder[last], str) and holder[last]:
                at = chance.randrange(len(holder[last]))
                holder[last] = holder[last][:at] + chance.choice("/\0.09az-\n é") + holder[last][at + 1 :]
            case 4 if type(holder[last]) is int:
                holder[last] += chance.choice([-1, 1, 1 << 32, -(1 << 40)])
            case _:
                holder[last] = copy.deepcopy(chance.choice(ODD))
    return changed[""]


def use(found: Manifest, directory: Path) -> None:
    """What is done with a manifest before anything of it is compared with the query: none of it may fail."""
    assert Manifest.decode(found.encode(), "again") == found
    assert found.step != found.evicting_step
    for other in (PLAN, OTHER):
        differences(found.identity, other)
    blocks = BlockDirectory(str(directory))
    blocks.delete({file.name for file in found.files})
    for agent in found.agents:
        assert AgentDescriptor.from_json(agent.to_json()) == agent
        assert not Path(agent.arena_path).is_dir()


def test_schemas_are_of_any_length() -> None:
    """A restart needs what an epoch has written."""
    long = manifest(3, PLAN, row_schemas=["ö" * (2 << 20), ""])
    assert Manifest.decode(long.encode(), "it") == long


@pytest.mark.parametrize("seed", range(4))
def test_a_forged_manifest_is_refused_or_right(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "blocks"
    folder.mkdir()
    beside = tmp_path / "x.arrow"
    beside.touch()
    record, chance = json.loads(MANIFEST.encode().partition(b"\n")[2]), random.Random(seed)
    read = 0
    for _ in range(1500):
        forged = mutated(record, chance)
        try:
            found = Manifest.decode(sealed(json.dumps(forged)), "3")
        except StateLostError:
            continue
        read += 1
        use(found, folder)
        assert json.loads(found.encode().partition(b"\n")[2]) == forged
    assert 30 < read < 1000
    assert beside.exists()


@pytest.mark.parametrize("body", ["", "[", "[]", "7", "null", '{"epoch": ' + "9" * 5000 + "}", "[" * 100_000, '"\xff"'])
def test_what_is_no_record_of_fields_is_refused(body: str) -> None:
    with pytest.raises(StateLostError):
        Manifest.decode(sealed(body), "3")


def test_a_manifest_under_another_epoch_s_name_is_refused(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "manifests")
    files.create("4", MANIFEST.encode())
    with pytest.raises(StateLostError, match="the manifest of epoch 3"):
        ManifestLog(files, LocalFiles(tmp_path / "runs")).look(4)


@pytest.mark.parametrize(
    "name", ["../x.arrow", "/x.arrow", "..", ".", "", "a/b", "a\0b", ".hidden", "x\n", "é", "x" * 300]
)
def test_no_name_leads_out_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "blocks").mkdir()
    (tmp_path / "x.arrow").write_bytes(b"ours")
    blocks = BlockDirectory(str(tmp_path / "blocks"))
    for act in (
        lambda: blocks.delete({name}),
        lambda: blocks.content(name),
        lambda: blocks.write(name, lambda file: file.write(b"theirs")),
    ):
        with pytest.raises(CheckpointError, match="the name of no file"):
            act()
    assert (tmp_path / "x.arrow").read_bytes() == b"ours"


@pytest.mark.parametrize("version", [4, 5, 7])
def test_a_manifest_of_another_format_is_refused_with_what_to_do(version: int) -> None:
    body = MANIFEST.encode().split(b"\n", 1)[1].rstrip(b"\n")
    seed = 0 if version == 4 else version
    text = f"pyslash-manifest {version} {zlib.crc32(body, seed):08x}\n".encode() + body + b"\n"
    with pytest.raises(StateLostError, match=r"no.* format 6\. .* give the query a new checkpointLocation"):
        Manifest.decode(text, "slash/manifests/3")


@pytest.mark.parametrize("order", [[1], [0, 0], [0, 1], [-1]])
def test_an_order_of_keys_has_each_of_them_once(order: list[int]) -> None:
    told = json.loads(MANIFEST.encode().partition(b"\n")[2])
    assert Manifest.decode(sealed(json.dumps(told | {"key_order": [0]})), "3").identity.key_order == (0,)
    with pytest.raises(StateLostError, match="is no manifest"):
        Manifest.decode(sealed(json.dumps(told | {"key_order": order})), "3")
