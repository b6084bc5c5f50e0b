"""Batches that Spark has forgotten: the state goes back with Spark's logs, as far as it is still there.

People delete the last entries of `offsets` and `commits` to have a batch repeated, or put these folders back alone.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from pyslash.conf import Conf
from pyslash.errors import RewoundCheckpointError, StateLostError
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.execution import SparkBatch
from pyslash.state.files.directory import BlockDirectory
from pyslash.state.manifest import BLOCKS, Manifest, ManifestLog
from pyslash.units import Epoch

logger = logging.getLogger("pyslash")


def written_of(
    execution: SparkBatch, manifests: ManifestLog, epoch: Epoch, conf: Conf
) -> tuple[Manifest | None, list[Epoch]]:
    """The manifest of the batch that Spark begins, where an earlier attempt has got as far with this very batch, and
    the epochs whose manifests are of batches that Spark has forgotten, which are all to be computed again.

    Raises:
        RewoundCheckpointError: there are such batches, and the state before them is gone.
        StateLostError: a manifest cannot be read.
    """
    later = [known for known in manifests.epochs() if known > epoch]
    manifest = manifests.look(epoch)
    is_same = manifest is not None and manifest.offsets == execution.offsets(epoch).sources
    forgotten = later if manifest is None or is_same else [epoch, *later]
    if not forgotten:
        return manifest, []
    if execution.has_gone_on(epoch):
        raise rewound(f"Spark begins batch {epoch}, but the state is as of batch {forgotten[-1]}")
    before = manifest if is_same else manifests.look(Epoch(epoch - 1))
    if before is None and epoch > 0:
        raise rewound(f"Spark begins batch {epoch} again, and no manifest tells the state before it")
    if before is not None and not conf.keeps_files:
        raise rewound(
            f"Spark begins batch {epoch} again, and with spark.slash.durability={conf.durability} the state is in "
            "memory alone, as of a later time"
        )
    if before is not None:
        check_files(execution, before)
    return manifest if is_same else None, forgotten


def holders_of(written: Manifest | None, manifests: ManifestLog, forgotten: list[Epoch]) -> list[AgentDescriptor]:
    """The agents that may hold what an attempt has `written`, or what Spark has forgotten, as far as one can tell."""
    holders: dict[AgentDescriptor, None] = dict.fromkeys(written.agents if written is not None else [])
    for epoch in forgotten:
        with suppress(StateLostError):
            manifest = manifests.look(epoch)
            holders |= dict.fromkeys(manifest.agents if manifest is not None else [])
    return list(holders)


def withdraw(manifests: ManifestLog, epochs: list[Epoch]) -> None:
    """Forget what Spark has forgotten."""
    for epoch in reversed(epochs):
        logger.warning("Spark's logs no longer have batch %d as it was, so it is computed again", epoch)
        manifests.withdraw(epoch)


def check_files(execution: SparkBatch, manifest: Manifest) -> None:
    """Pass if the files of an epoch's state are still there.

    Raises:
        RewoundCheckpointError: some were deleted once a later epoch was done.
    """
    held = BlockDirectory(f"{execution.checkpoint}/{BLOCKS}").names()
    gone = [file.name for file in manifest.files if file.name not in held]
    if gone:
        raise rewound(
            f"Spark continues from batch {manifest.epoch}, and {len(gone)} of the {len(manifest.files)} files of the "
            "state as of then are gone. If entries were deleted from Spark's offsets and commits, put them back: "
            f"`pyslash state list {execution.checkpoint}` prints the batches, and the state as of the last one"
        )


def rewound(what: str) -> RewoundCheckpointError:
    """An error that says what Spark and the state disagree about, and what to do."""
    return RewoundCheckpointError(
        f"{what}: another driver runs this query, or the checkpoint was rewound, restored or damaged in part. Stop the "
        "other driver, if there is one, and start the query again. Else restore all of it from one backup, its folder "
        "slash included, or give the query a new checkpointLocation."
    )
