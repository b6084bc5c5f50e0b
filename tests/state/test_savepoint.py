"""Savepoints of a checkpoint that grows, is compacted and cleaned up, whose saves are killed at each write."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyslash.errors import CheckpointError, InvalidInputError, StateLostError
from pyslash.inspect.state.verify import verify
from pyslash.state import tree
from pyslash.state.files.checkpoint_files import LocalFiles
from pyslash.state.manifest import BLOCKS, MANIFESTS, OPERATOR, RUNS, ManifestLog
from pyslash.state.savepoint import MARKER, SAVEPOINTS, Savepoint, drop, fork, location_of, save, savepoints
from pyslash.state.stored import StoredState
from pyslash.state.tree import Tree
from tests.support.manifests import manifest
from tests.support.two_epochs import IDENTITY, write_two_epochs

QUERY = "11111111-2222-3333-4444-555555555555"
SCHEMA = "state/1/_stateSchema/default/0_a"


class Killed(BaseException):
    """Nothing that Python code cleans up after."""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """With two operators, and what Spark writes for a query of three batches, of which the last is not committed."""
    location = write_two_epochs(tmp_path / "50% of #1").location
    (location / OPERATOR.format(1)).mkdir()
    for folder in (BLOCKS, MANIFESTS, RUNS):
        shutil.copytree(location / folder, location / OPERATOR.format(1) / folder)
    logs = {f"offsets/{batch}": f'v1\n{{}}\n{{"logOffset":{batch}}}\n{{"topic":{{"0":7}}}}' for batch in range(3)}
    logs |= {f"commits/{batch}": f"commit {batch}" for batch in range(2)}
    logs |= {f"sources/0/{batch}": f"files {batch}" for batch in range(3)}
    logs |= {"sources/1/0": "topics", "sources/1/9": "of another source"}
    logs |= {"metadata": json.dumps({"id": QUERY}), "commits/.1.crc": "crc"}
    logs |= {"state/0/_metadata/metadata": "operator", "state/0/0/_metadata/schema": "schema", "state/0/0/1.delta": "?"}
    schemas = [f"file:{location}/{SCHEMA}", "file:/gone/state/1/_stateSchema/default/0_b"]
    stores = [{"storeName": "default", "stateSchemaFilePaths": schemas}, {"storeName": "x"}]
    noted = json.dumps({"stateStoreInfo": stores})
    logs |= {f"state/1/_metadata/v2/{start}": f"v2\n{noted}" for start in (0, 2)} | {SCHEMA: "fields"}
    for path, content in logs.items():
        (location / path).parent.mkdir(parents=True, exist_ok=True)
        (location / path).write_text(content)
    return location


def content(location: str | Path) -> dict[str, bytes]:
    """Of each file of a savepoint or a fork, but for what is another in each."""
    root = Path(location)
    paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return {str(path): (root / path).read_bytes() for path in paths if str(path) not in (MARKER, "metadata")}


def state_of(location: str | Path) -> list[Any]:
    """What is stored as of the newest epoch, of each operator."""
    stored = [StoredState.at(f"{location}/{folder}") for folder in ("", OPERATOR.format(1))]
    blocks = [[block for _, found in one.read(one.manifest()) for block in found] for one in stored]
    return [[(block.head, [bytes(data) for _, data in block.segments]) for block in of_one] for of_one in blocks]


def test_a_savepoint_is_a_whole_checkpoint_as_of_the_last_committed_batch(checkpoint: Path) -> None:
    before = state_of(checkpoint)
    saved = save(str(checkpoint), "monday")
    assert (saved.name, saved.epoch, saved.query, saved.files, saved.shared) == ("monday", 1, QUERY, 4, 4)
    assert savepoints(str(checkpoint)) == [saved]
    place = Path(location_of(str(checkpoint), "monday"))
    assert state_of(place) == before
    assert (place / "metadata").read_text() == (checkpoint / "metadata").read_text()
    logs = {path for path in content(place) if not path.startswith("slash")}
    assert logs == {
        *(
            "offsets/0",
            "offsets/1",
            "commits/0",
            "commits/1",
            "sources/0/0",
            "sources/0/1",
            "sources/1/0",
            "sources/1/9",
        ),
        *("state/0/_metadata/metadata", "state/0/0/_metadata/schema", "state/1/_metadata/v2/0", SCHEMA),
    }
    found = StoredState.at(str(place)).manifest()
    assert (found.blocks, found.agents, found.standbys, found.identity) == ([], [], {}, IDENTITY)
    assert [file.holder for file in found.files] == ["", ""]


def test_what_a_name_pins_outlives_the_checkpoints_own_files(checkpoint: Path, tmp_path: Path) -> None:
    before = state_of(checkpoint)
    save(str(checkpoint), "monday")
    names = [path.name for path in (checkpoint / BLOCKS).iterdir()]
    for folder in (checkpoint, checkpoint / OPERATOR.format(1)):
        Tree(str(folder / "slash/blocks")).delete()  # as compaction and clean-up do, by name
        Tree(str(folder / "slash/manifests")).delete()
    place = location_of(str(checkpoint), "monday")
    assert state_of(place) == before
    assert sorted(path.name for path in (Path(place) / BLOCKS).iterdir()) == sorted(names)
    forked = fork(str(checkpoint), "monday", str(tmp_path / "fork"))
    drop(str(checkpoint), "monday")
    assert savepoints(str(checkpoint)) == []
    assert not Path(place).exists()
    assert state_of(tmp_path / "fork") == before
    assert json.loads((tmp_path / "fork/metadata").read_text()) == {"id": forked.query}
    assert forked.query != QUERY


def test_a_fork_has_what_the_savepoint_has(checkpoint: Path, tmp_path: Path) -> None:
    save(str(checkpoint), "monday")
    forked = fork(str(checkpoint), "monday", f"file://{tmp_path}/a/fork")
    assert forked.shared == forked.files == 4
    noted = content(tmp_path / "a/fork")["state/1/_metadata/v2/0"].decode()
    assert noted.startswith("v2\n")
    first, other = json.loads(noted[3:])["stateStoreInfo"]
    own = f"file://{tmp_path}/a/fork/{SCHEMA}"
    assert first["stateSchemaFilePaths"] == [own, "file:/gone/state/1/_stateSchema/default/0_b"]
    assert other == {"storeName": "x"}
    kept = content(location_of(str(checkpoint), "monday"))
    assert content(tmp_path / "a/fork") == kept | {"state/1/_metadata/v2/0": noted.encode()}
    assert verify(StoredState.at(str(tmp_path / "a/fork"))).problems == []
    log = ManifestLog(LocalFiles(tmp_path / "a/fork" / MANIFESTS), LocalFiles(tmp_path / "a/fork" / RUNS))
    assert log.take_over() > StoredState.at(str(checkpoint)).manifest().run


def test_a_fork_goes_where_a_link_leads(checkpoint: Path, tmp_path: Path) -> None:
    save(str(checkpoint), "monday")
    (tmp_path / "disk").mkdir()
    (tmp_path / "fork").symlink_to("disk")
    assert fork(str(checkpoint), "monday", f"{tmp_path}/fork/").files == 4
    assert state_of(tmp_path / "fork") == state_of(tmp_path / "disk") == state_of(checkpoint)


@pytest.mark.parametrize("kind", ["slash/blocks/*", "slash/operator-1/slash/blocks/*", "commits/1", "offsets/1"])
def test_a_savepoint_that_has_lost_a_file_is_not_forked(checkpoint: Path, tmp_path: Path, kind: str) -> None:
    save(str(checkpoint), "monday")
    (lost, *_) = sorted(Path(location_of(str(checkpoint), "monday")).glob(kind))
    lost.unlink()
    with pytest.raises(StateLostError, match=f"has lost .*{lost.name}: no query can continue from it"):
        fork(str(checkpoint), "monday", str(tmp_path / "fork"))
    assert not (tmp_path / "fork").exists()


def test_where_no_hard_links_are_files_are_copied(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", none)
    saved = save(str(checkpoint), "monday")
    assert (saved.files, saved.shared) == (4, 0)
    assert state_of(location_of(str(checkpoint), "monday")) == state_of(checkpoint)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Kills this process, so to say, before a step that changes the disk, and lists the steps that were done."""

    def kill_at(step: int) -> list[str]:
        done: list[str] = []

        def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                if len(done) == step:
                    raise Killed
                done.append(name)
                return real(*args, **kwargs)

            return call

        for name in ("write", "share", "delete_file"):
            monkeypatch.setattr(Tree, name, counted(name, REAL[name]))
        monkeypatch.setattr(tree, "_publish", counted("rename", REAL["rename"]))
        return done

    return kill_at


REAL: dict[str, Any] = {name: getattr(Tree, name) for name in ("write", "share", "delete_file")}
REAL["rename"] = tree._publish


def test_a_save_that_is_killed_at_any_write_leaves_a_whole_savepoint_or_none(
    checkpoint: Path, writes: Callable[[int], list[str]]
) -> None:
    whole: list[Savepoint] = []
    for step in range(100):
        done = writes(step)
        try:
            whole.append(save(str(checkpoint), "monday"))
        except Killed:
            assert savepoints(str(checkpoint)) == []
            with pytest.raises(InvalidInputError, match="has no savepoint monday; it has none"):
                fork(str(checkpoint), "monday", f"{checkpoint}-fork")
            continue
        break
    assert len(done) == step > 15  # each write of a whole save was the last one once
    assert done[-1] == "rename"
    assert savepoints(str(checkpoint)) == whole
    assert state_of(location_of(str(checkpoint), "monday")) == state_of(checkpoint)
    assert os.listdir(checkpoint / SAVEPOINTS) == ["monday"]  # nothing is left of those that were killed


def test_a_fork_that_is_killed_leaves_nothing_where_a_query_would_start(
    checkpoint: Path, tmp_path: Path, writes: Callable[[int], list[str]]
) -> None:
    save(str(checkpoint), "monday")
    target = tmp_path / "forks" / "one"
    for step in range(100):
        writes(step)
        try:
            fork(str(checkpoint), "monday", str(target))
        except Killed:
            assert not target.exists()
            continue
        break
    assert step > 15
    assert state_of(target) == state_of(checkpoint)
    assert os.listdir(target.parent) == ["one"]


def test_a_drop_that_is_killed_leaves_a_name_that_can_be_saved_again(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(str(checkpoint), "monday")

    def killed(_: Tree) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Tree, "delete", killed)
        with pytest.raises(Killed):
            drop(str(checkpoint), "monday")
    assert savepoints(str(checkpoint)) == []
    save(str(checkpoint), "monday")
    assert state_of(location_of(str(checkpoint), "monday")) == state_of(checkpoint)


def test_files_that_spark_has_compacted_into_a_later_entry_stay_together(checkpoint: Path) -> None:
    (checkpoint / "sources/0/2").rename(checkpoint / "sources/0/2.compact")
    (checkpoint / "sources/0/3").write_text("files 3")
    save(str(checkpoint), "monday")
    kept = {path.name for path in Path(location_of(str(checkpoint), "monday"), "sources/0").iterdir()}
    assert kept == {"0", "1", "2.compact"}


def test_a_query_that_goes_on_while_it_is_saved_is_saved_as_of_a_later_batch(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file is linked, then the query commits a batch and deletes the files that it has compacted."""
    newest = StoredState.at(str(checkpoint)).manifest()
    real, struck = Tree.share, []

    def share(target: Tree, path: str, source: Tree) -> bool:
        found = real(target, path, source)
        if not struck:
            struck.append(path)
            for folder in (checkpoint, checkpoint / OPERATOR.format(1)):
                log = ManifestLog(LocalFiles(folder / MANIFESTS), LocalFiles(folder / RUNS))
                log.take_over()
                log.create(manifest(2, IDENTITY, run=log.run, files=newest.files[1:], watermark_us=newest.watermark_us))
                (folder / BLOCKS / newest.files[0].name).unlink()
            (checkpoint / "commits/2").write_text("commit 2")
        return found

    monkeypatch.setattr(Tree, "share", share)
    saved = save(str(checkpoint), "monday")
    assert struck
    assert (saved.epoch, saved.files) == (2, 2)
    place = Path(location_of(str(checkpoint), "monday"))
    assert state_of(place) == state_of(checkpoint)
    assert [path.name for path in (place / BLOCKS).iterdir()] == [newest.files[1].name]
    assert sorted(path.name for path in (place / "commits").iterdir()) == ["1", "2"]


def test_what_cannot_be_saved_forked_or_dropped_is_said(checkpoint: Path, tmp_path: Path) -> None:
    place = str(checkpoint)
    save(place, "monday")
    for name in ("../up", "", ".hidden", "a" * 65, "a/b"):
        with pytest.raises(InvalidInputError, match="is no name of a savepoint"):
            save(place, name)
    with pytest.raises(InvalidInputError, match="there is a savepoint monday"):
        save(place, "monday")
    with pytest.raises(InvalidInputError, match="has no savepoint tuesday; it has monday"):
        fork(place, "tuesday", str(tmp_path / "fork"))
    with pytest.raises(InvalidInputError, match="has no savepoint tuesday"):
        drop(place, "tuesday")
    with pytest.raises(InvalidInputError, match="is not empty"):
        fork(place, "monday", place)
    with pytest.raises(CheckpointError, match="has no committed batch"):
        save(str(tmp_path / "nothing"), "monday")
    assert not (tmp_path / "nothing").exists()
    (Path(location_of(place, "monday")) / MARKER).write_text("{}")
    with pytest.raises(StateLostError, match="is not what was written"):
        fork(place, "monday", str(tmp_path / "fork"))


def test_state_that_is_missing_or_in_memory_alone_is_not_saved(checkpoint: Path) -> None:
    (checkpoint / BLOCKS / StoredState.at(str(checkpoint)).manifest().files[0].name).unlink()
    with pytest.raises(CheckpointError, match="cannot be reached"):
        save(str(checkpoint), "monday")
    log = ManifestLog(LocalFiles(checkpoint / MANIFESTS), LocalFiles(checkpoint / RUNS))
    log.take_over()
    log.create(manifest(2, IDENTITY, run=log.run, in_checkpoint=False))
    (checkpoint / "commits/2").write_text("commit 2")
    with pytest.raises(StateLostError, match="is in memory alone"):
        save(str(checkpoint), "monday")
    (checkpoint / "commits/3").write_text("commit 3")
    with pytest.raises(CheckpointError, match="holds no state of pyslash as of batch 3"):
        save(str(checkpoint), "monday")
    assert savepoints(str(checkpoint)) == []
