"""Savepoints: the state of a query as of a batch, under a name, as a whole checkpoint that no query runs on.

    CHECKPOINT/slash/savepoints/NAME/
      metadata, offsets, commits, sources, state    of Spark's own logs, what it takes to continue behind the batch
      slash/manifests/N, slash/blocks, operator-n   one manifest an operator, and the block files that it names
      slash/backfills/NAME                          that the state has taken them, without their blocks
      slash/files-skipped                           that the sources' log may have newer files before older ones
      savepoint.json                                is written last: a folder without it is no savepoint

Block files are never changed, so they are shared by hard links where both are on one local file system. What the query
compacts or cleans up are its own names of them. A fork is the same again, elsewhere and under a new query id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from pyslash.errors import CheckpointError, InvalidInputError, StateLostError
from pyslash.state.files.directory import numbers
from pyslash.state.manifest import BLOCKS, FILES_SKIPPED, MANIFESTS, OPERATOR, RUNS, Manifest
from pyslash.state.tree import Tree
from pyslash.units import NO_EPOCH, Epoch, Run

SAVEPOINTS = "slash/savepoints"
BACKFILLS = "slash/backfills"
BACKFILL = "backfill.json"
TAKEN = "taken"
Look = Callable[[Epoch], Manifest | None]
"""The manifest of an epoch of a query, if it is there."""
MARKER = "savepoint.json"
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_METADATA = "metadata"
# Spark's, below `state`: of an operator, which names the files with the schemas of a processor's state by whole paths.
_OF_OPERATOR, _SCHEMAS, _SCHEMA_PATHS = "/_metadata/v2/", "/_stateSchema/", "stateSchemaFilePaths"
# A query that runs may replace files while they are linked, once a batch.
_ATTEMPTS = 5


@dataclass(frozen=True)
class Savepoint:
    """A name, the batch as of the end of which it is, the id of the query, when it was saved (ISO 8601), and the files
    that hold the state: how many, their bytes, and how many of them are `shared` with the query's checkpoint.
    """

    name: str
    epoch: Epoch
    query: str
    saved: str
    files: int
    bytes: int
    shared: int


def is_name(folder: str) -> bool:
    """Whether a folder can be a savepoint or a backfill. Copies that somebody has put beside them are none of ours."""
    return _NAME.fullmatch(folder) is not None


def check_name(name: str, of: str = "savepoint") -> None:
    """Pass if it can be the name of one, which is that of a folder.

    Raises:
        InvalidInputError: it cannot.
    """
    if not is_name(name):
        raise InvalidInputError(
            f"{name!r} is no name of a {of}: write up to 64 letters, digits, - and _, and begin with a letter or digit"
        )


def location_of(checkpoint: str, name: str) -> str:
    """Where a savepoint is, which can be read as any checkpoint."""
    check_name(name)
    return f"{Tree(checkpoint).location}/{SAVEPOINTS}/{name}"


def save(checkpoint: str, name: str) -> Savepoint:
    """Give a name to the state as of the last committed batch of a query, which may run.

    Raises:
        InvalidInputError: the name is taken, or is none.
        CheckpointError: there is no such state, or it cannot be read or written.
        StateLostError: the state is in memory alone, or is not what was written.
    """
    source, target = Tree(checkpoint), Tree(location_of(checkpoint, name))
    if target.has(MARKER):
        raise InvalidInputError(f"there is a savepoint {name} of {source.location}: drop it, or choose another name")
    _committed(source)  # or there is nothing to save, and nothing to make
    target.delete()  # of a save that was killed
    with target.made() as tree:
        saved = replace(copied(source, tree), name=name)
        tree.write(MARKER, json.dumps(asdict(saved)).encode())
    return saved


def savepoints(checkpoint: str) -> list[Savepoint]:
    """The savepoints of a checkpoint, the oldest first.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        StateLostError: a savepoint is not what was written.
    """
    tree = Tree(checkpoint)
    places = [f"{SAVEPOINTS}/{name}/{MARKER}" for name in filter(is_name, tree.folders(SAVEPOINTS))]
    found = [_parsed(tree, place) for place in places if tree.has(place)]
    return sorted(found, key=lambda one: (one.saved, one.name))


def drop(checkpoint: str, name: str) -> None:
    """Delete a savepoint. Checkpoints that were forked from it are not affected.

    Raises:
        InvalidInputError: there is none of this name.
        CheckpointError: it cannot be deleted.
    """
    tree = _tree_of(checkpoint, name)
    tree.delete_file(MARKER)
    tree.delete()


def fork(checkpoint: str, name: str, to: str) -> Savepoint:
    """Make a checkpoint of a savepoint, for another query, which continues behind its batch. It gets a query id of its
    own, by which agents and sinks tell the two queries apart.

    Raises:
        InvalidInputError: there is no such savepoint, or `to` is not empty.
        CheckpointError: a file cannot be read or written.
        StateLostError: the savepoint is not what was written.
    """
    source = _tree_of(checkpoint, name)
    saved = _parsed(source, MARKER)
    query, paths = str(uuid4()), source.below()
    if lost := sorted(_needed(source, saved.epoch) - {*paths}):
        raise StateLostError(
            f"{source.location} has lost {lost[0]}: no query can continue from it. Fork another savepoint"
        )
    with Tree(to).made() as tree:
        shared = 0
        for path in paths:
            if path in (MARKER, _METADATA):
                continue
            if _is_block(path):
                shared += tree.share(path, source)
            elif _OF_OPERATOR in path:
                tree.write(path, _relocated(source.read(path), source, Tree(to).location))
            else:
                tree.write(path, source.read(path))
        tree.write(_METADATA, json.dumps({"id": query}).encode())
    return replace(saved, query=query, shared=shared)


def _needed(source: Tree, epoch: Epoch) -> set[str]:
    """Of a savepoint, without which a query would start from something else, or not at all."""
    files = {f"{at}{BLOCKS}/{file.name}" for at, manifest in _manifests(source, epoch) for file in manifest.files}
    return files | {f"offsets/{epoch}", f"commits/{epoch}"}


def _tree_of(checkpoint: str, name: str) -> Tree:
    tree = Tree(location_of(checkpoint, name))
    if not tree.has(MARKER):
        known = ", ".join(one.name for one in savepoints(checkpoint)) or "none"
        raise InvalidInputError(f"{Tree(checkpoint).location} has no savepoint {name}; it has {known}")
    return tree


def _parsed(tree: Tree, path: str) -> Savepoint:
    try:
        return Savepoint(**json.loads(tree.read(path)))
    except (ValueError, TypeError) as error:
        raise StateLostError(f"{tree.location}/{path} is not what was written: {error}") from None


def copied(source: Tree, target: Tree) -> Savepoint:
    """Copy what it takes to continue behind the last committed batch, under no name.

    Raises:
        CheckpointError: there is no such state, or it cannot be read or written.
        StateLostError: the state is in memory alone, or is not what was written.
    """
    epoch = NO_EPOCH
    for _ in range(_ATTEMPTS):
        before, epoch = epoch, _committed(source)
        try:
            manifests = _manifests(source, epoch)
            shared = [
                target.share(f"{folder}{BLOCKS}/{file.name}", source)
                for folder, manifest in manifests
                for file in manifest.files
            ]
            for path in _logs(source, epoch):
                target.write(path, source.read(path))
            break
        except CheckpointError:
            if before == epoch or epoch == _committed(source):
                raise  # nothing has replaced what is missing
            target.delete()
    else:
        raise CheckpointError(
            f"{source.location} goes on faster than its files can be linked or copied, {_ATTEMPTS} times in a row. "
            "Save again, or stop the query first"
        )
    for folder, manifest in manifests:
        target.write(f"{folder}{MANIFESTS}/{epoch}", _without_agents(manifest).encode())
        target.write(f"{folder}{RUNS}/{manifest.run}", b"of a savepoint")  # later runs have higher numbers
    for path in files_of_taken(source, manifests[0][1]):
        target.write(path, source.read(path))
    size = sum(file.bytes for _, manifest in manifests for file in manifest.files)
    query = str(json.loads(source.read(_METADATA))["id"])
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    return Savepoint("", epoch, query, now, len(shared), size, sum(shared))


def taken_in(tree: Tree, name: str, last: Manifest | None, look: Look) -> Epoch | None:
    """The epoch that has made a backfill part of the state as of the manifest `last`; None: it is not."""
    names = [path.rpartition("/")[2].split("-") for path in tree.below(f"{BACKFILLS}/{name}/{TAKEN}")]
    if not names or last is None:
        return None
    records = sorted(((Run(int(run)), Epoch(int(epoch))) for epoch, run in names), reverse=True)
    for run, epoch in records:
        manifest = look(epoch) if epoch <= last.epoch else None
        # Any run's: that of one which was replaced may have come late. And the state may have been plain Spark's since.
        if manifest is not None and (manifest.run == run or manifest.is_of_spark):
            return epoch
    # Whoever begins another run takes what is due before its manifests have pushed that one out.
    _, epoch = records[0]
    return epoch if epoch <= last.epoch and look(epoch) is None else None


def files_of_taken(source: Tree, last: Manifest) -> Iterator[str]:
    """The files that say which backfills are part of the state as of a manifest."""

    def look(epoch: Epoch) -> Manifest | None:
        path = f"{MANIFESTS}/{epoch}"
        return Manifest.decode(source.read(path), path, epoch) if source.has(path) else None

    for name in filter(is_name, source.folders(BACKFILLS)):
        folder = f"{BACKFILLS}/{name}"
        if source.has(f"{folder}/{BACKFILL}") and taken_in(source, name, last, look) is not None:
            yield from (f"{folder}/{BACKFILL}", *source.below(f"{folder}/{TAKEN}"))


def _committed(source: Tree) -> Epoch:
    """The last batch that Spark has committed."""
    done = numbers(map(_named, source.below("commits")))
    if not done:
        raise CheckpointError(f"{source.location} has no committed batch: there is no state to save yet")
    return Epoch(done[-1])


def _manifests(source: Tree, epoch: Epoch) -> list[tuple[str, Manifest]]:
    """The manifest of each operator as of a batch, and the folder of the operator's state in the checkpoint."""
    found = []
    for folder in _operators(source):
        path = f"{folder}{MANIFESTS}/{epoch}"
        if not source.has(path):
            raise CheckpointError(
                f"{source.location} holds no state of pyslash as of batch {epoch}: there is no {path}. Name the "
                "checkpointLocation of a query whose last batch ran on pyslash"
            )
        manifest = Manifest.decode(source.read(path), f"{source.location}/{path}", epoch)
        if not manifest.in_checkpoint:
            raise StateLostError(
                f"the state of {source.location} is in memory alone, where no name can keep it: set "
                "spark.slash.durability=checkpoint or both"
            )
        found.append((folder, manifest))
    return found


def _operators(source: Tree) -> Iterator[str]:
    yield ""
    index = 1
    while source.below(f"{OPERATOR.format(index)}/{MANIFESTS}"):
        yield f"{OPERATOR.format(index)}/"
        index += 1


def _logs(source: Tree, epoch: Epoch) -> Iterator[str]:
    """Of Spark's own files, those of the batch and of the one before it, and what is of all batches."""
    yield _METADATA
    for log in ("offsets", "commits"):
        yield f"{log}/{epoch}"
        if source.has(f"{log}/{epoch - 1}"):
            yield f"{log}/{epoch - 1}"
    yield from _sources(source, source.read(f"offsets/{epoch}").decode().splitlines()[2:])
    if source.has(FILES_SKIPPED):  # looked for behind the sources: it is there before an entry that skips files is
        yield FILES_SKIPPED
    yield from (path for path in source.below("state") if _tells_of_operator(path, epoch))


def _sources(source: Tree, offsets: list[str]) -> Iterator[str]:
    """What the sources keep, without the files that later batches have: a fork shares them among batches by itself."""
    for folder in source.folders("sources"):
        kept = source.below(f"sources/{folder}")
        last = _log_offset(offsets[int(folder)]) if folder.isdigit() and int(folder) < len(offsets) else None
        if last is not None:
            # A compacted entry has those before it, which Spark may have deleted.
            compacted = numbers(_named(path).removesuffix(".compact") for path in kept if path.endswith(".compact"))
            end = max([last, *compacted])
            kept = [path for path in kept if not _named(path).isdigit() or int(_named(path)) <= end]
        yield from kept


def _tells_of_operator(path: str, epoch: Epoch) -> bool:
    """Whether it is what Spark has noted of an operator when the query was planned, until a batch."""
    if _OF_OPERATOR in path:
        return _named(path).isdigit() and int(_named(path)) <= epoch
    return "/_metadata/" in path or _SCHEMAS in path


def _relocated(metadata: bytes, source: Tree, location: str) -> bytes:
    """Spark's metadata of an operator, for a checkpoint at another location with the schemas that `source` has."""
    version, text = metadata.decode().split("\n", 1)
    told = json.loads(text)
    base = location if "://" in location else f"file:{location}"
    for store in told["stateStoreInfo"]:
        paths = [(path, f"state/{path.rpartition('/state/')[2]}") for path in store.get(_SCHEMA_PATHS, [])]
        if paths:
            store[_SCHEMA_PATHS] = [f"{base}/{own}" if source.has(own) else path for path, own in paths]
    return f"{version}\n{json.dumps(told)}".encode()


def _named(path: str) -> str:
    return path.rpartition("/")[2]


def _log_offset(offset: str) -> int | None:
    """Of Spark's file source, its entry of this batch."""
    try:
        found = json.loads(offset)
    except ValueError:
        return None
    return int(found["logOffset"]) if isinstance(found, dict) and "logOffset" in found else None


def _without_agents(manifest: Manifest) -> Manifest:
    """The same state as its files have it, which no agent holds in memory."""
    files = [replace(file, holder="") for file in manifest.files]
    before = f"saved from {manifest.version}"
    return replace(manifest, blocks=[], agents=[], standbys={}, held=None, before=before, files=files)


def _is_block(path: str) -> bool:
    """Whether a file of a checkpoint is a block file."""
    return f"/{path}".rpartition("/")[0].endswith(f"/{BLOCKS}")
