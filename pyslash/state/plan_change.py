"""What a query that has changed since its state was written continues with."""

from __future__ import annotations

import logging

from pyslash.errors import PlanMismatchError
from pyslash.plan.change.evolution import Evolution, evolve, unchanged
from pyslash.plan.change.identity import PlanIdentity, may_be_renamed
from pyslash.state.manifest import Manifest
from pyslash.units import Epoch

logger = logging.getLogger("pyslash")


def evolution_of(last: Manifest | None, query: PlanIdentity, change: str, epoch: Epoch) -> Evolution:
    """What a query continues with in `epoch`, on the state as of the last manifest.

    `change` is what `spark.slash.plan.change` allows.

    Raises:
        PlanMismatchError: it cannot, or `spark.slash.plan.change` has to say that it may.
    """
    if last is None:
        return unchanged(query)
    before = last.identity
    is_renamed = change == "names" and may_be_renamed(before, query)
    try:
        evolution = evolve(before, query, epoch)
    except PlanMismatchError:
        if is_renamed:
            return unchanged(query, before)
        raise
    if evolution.gained and is_renamed:
        return unchanged(query, before)
    if evolution.gained and change != "aggregates":
        listed = [
            f"{sql} is new: for groups that had rows before batch {since} it would cover only the rows since then"
            for sql, since in evolution.gained
        ]
        listed += [f"{sql} is dropped" for sql in evolution.dropped]
        raise PlanMismatchError(
            "the checkpoint has no state for aggregates of this query:\n  " + "\n  ".join(listed) + "\nSet "
            "spark.slash.plan.change=aggregates to continue like that, or give the query a new checkpointLocation. "
            "If its columns only have other names, set spark.slash.plan.change=names."
        )
    return evolution


def warn_of(evolution: Evolution, epoch: Epoch) -> None:
    """Say what becomes of the state, which is as of `epoch`."""
    told = [f"{sql} is dropped" for sql in evolution.dropped]
    told += [f"{sql} covers only the rows since batch {since}" for sql, since in evolution.gained]
    logger.warning(
        "the aggregates of the query have changed since batch %d, and its checkpoint is rewritten for them: %s",
        epoch,
        "; ".join(told) or "none is dropped, and the state has the whole history of each",
    )
