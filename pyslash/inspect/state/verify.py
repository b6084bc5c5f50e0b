"""Reads every byte of a checkpoint: is everything there, and is it what was written?"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyslash._native import Head, Plan
from pyslash.errors import SlashError
from pyslash.state.files.block_file import decode
from pyslash.state.files.directory import BlockFile, run_of
from pyslash.state.manifest import Manifest
from pyslash.state.stored import StoredState


@dataclass
class Verdict:
    """What was read, and everything that is wrong with it: a restart would fail, or has to do without."""

    manifests: int = 0
    files: int = 0
    blocks: int = 0
    segments: int = 0
    bytes: int = 0
    unnamed: list[str] = field(default_factory=list)  # of batches that failed or are under way: no harm
    problems: list[str] = field(default_factory=list)


def verify(state: StoredState) -> Verdict:
    """Every manifest, and every file that the newest one names; files of earlier epochs where they are still there.

    Raises:
        CheckpointError: there is no checkpoint, or it cannot be reached.
    """
    verdict = Verdict()
    manifests: list[Manifest] = []
    for one in state.every_manifest():
        if isinstance(one, Manifest):
            manifests.append(one)
        else:
            verdict.problems.append(f"{type(one).__name__}: {one}")
    verdict.manifests = len(manifests)
    there = state.blocks.names()
    checked: set[BlockFile] = set()
    for manifest in reversed(manifests):
        for file in manifest.files:
            if file.name not in there and manifest is not manifests[-1]:
                continue  # replaced since, and deleted once Spark had logged the epoch
            if file not in checked:
                checked.add(file)
                _check(state, manifest, file, verdict)
    named = {file.name for manifest in manifests for file in manifest.files}
    verdict.unnamed = sorted(name for name in there - named if run_of(name) is not None)
    return verdict


def _check(state: StoredState, manifest: Manifest, file: BlockFile, verdict: Verdict) -> None:
    try:
        blocks = decode(state.blocks.read(file), file.name)
    except SlashError as error:
        if not _is_replaced(state, file):
            verdict.problems.append(f"{type(error).__name__}: epoch {manifest.epoch}: {error}")
        return
    fingerprint = Plan(manifest.plan).fingerprint
    if any(Head(block.head).fingerprint != fingerprint for block in blocks):
        verdict.problems.append(f"PlanMismatchError: epoch {manifest.epoch}: {file.name} is of another query")
    verdict.files += 1
    verdict.blocks += len(blocks)
    verdict.segments += sum(len(block.segments) for block in blocks)
    verdict.bytes += file.bytes


def _is_replaced(state: StoredState, file: BlockFile) -> bool:
    """Whether a query that runs has deleted the file since it was listed, and its newest manifest names it no more."""
    try:
        needed = {one.name for one in state.manifest().files}
        return file.name not in needed | state.blocks.names()
    except SlashError:
        return False
