"""Brings what a query has missed into its state: rows of a time before it, or of another place."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from pyslash._native import Head
from pyslash.api.enable import enable
from pyslash.driver.coverage_check import begun, operators_of
from pyslash.driver.start.hook import runner_of
from pyslash.errors import InvalidInputError, PlanMismatchError, StateLostError, UnsupportedQueryError
from pyslash.inspect.state.dump import merged
from pyslash.plan.change.identity import differences
from pyslash.plan.emission import EVERY_END_US
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.spark import session
from pyslash.state.backfill import Backfill, Backfills
from pyslash.state.files.block_file import ALL_PREFIXES
from pyslash.state.manifest import Manifest
from pyslash.state.stored import StoredState
from pyslash.state.tree import Tree
from pyslash.units import Micros

logger = logging.getLogger("pyslash")
LATE = ("refuse", "drop")
"""What may become of groups that come too late."""
_MINUTE_US = 60_000_000
# Of a query that runs on pyslash or not at all, leaves its state in files, and reads all that there is.
_SETTINGS = {
    "spark.slash.mode": "require",
    "spark.slash.durability": "checkpoint",
    "spark.slash.backlog": "ordered",
    "spark.slash.shed": "off",
}


def backfill(
    df: DataFrame, checkpoint: str, name: str, *, late: str = "refuse", output_mode: str = "update"
) -> Backfill:
    """Read the history that a query has missed, and hand its groups to the query, which may run.

    All that the sources of `df` have is read as one micro-batch, in this application, and nothing is written to a sink.
    The query takes the groups with its next micro-batch, or when it is started again, and merges them with its own: in
    complete mode its rows then are those of a query that has read both, in update mode it emits each group that has
    changed, in append mode windows and sessions emit both when they close; a deduplication emits the keys that it has
    not emitted yet. It takes them once, whatever is killed. The same call with the same name does nothing more.

    Args:
        df: the streaming DataFrame of the query's job over the history: the same windows, keys and aggregates over a
            source that ends. Of several stateful operators, each stands on the one before.
        checkpoint: the query's `checkpointLocation`. It has finished a micro-batch on pyslash, with
            `spark.slash.durability=checkpoint` or `both`.
        name: of the backfill: up to 64 letters, digits, `-` and `_`.
        late: what becomes of groups that may be part of what the query has emitted for good, and dropped from its
            state: `refuse` the backfill, or `drop` those that are over.
        output_mode: one that Spark allows for `df`, and no more than that: the groups are the same in each.

    Returns:
        What the query will take.

    Raises:
        InvalidInputError: the name is none, `late` is none of both, groups come too late and are not to be dropped, or
            there is nothing to read.
        PlanMismatchError: it is not the job of the query.
        UnsupportedQueryError: pyslash does not run it, or an operator of it takes no backfill: the message says why.
        CheckpointError: the checkpoint has no state of pyslash, or cannot be read or written.
        StateLostError: the state is in memory alone.
        StreamingQueryException: the history cannot be read.
    """
    if late not in LATE:
        raise InvalidInputError(f"late={late!r}: write one of {', '.join(LATE)}")
    spark = df.sparkSession
    session.check_classic(spark)
    backfills = Backfills(checkpoint)
    if backfills.has(name):
        return backfills.read(name)
    mode = OutputMode.parse(output_mode)
    enable(spark)
    with session.changed(spark, _SETTINGS):
        rows, operators = _planned(df, mode, checkpoint)
        enable(rows.sparkSession)  # perhaps another one
        run = backfills.new_run(name)
        try:
            _read(rows, mode, run)
            watermarks = [manifest.watermark_us for manifest in _newest(checkpoint)]
            made = Backfill(name, late, _final_by(run, operators, watermarks))
            _check_late(made, watermarks)
            backfills.add(made, run)
        except Exception:
            if backfills.has(name):  # by another call at the same time, which was faster
                return backfills.read(name)
            raise
        finally:
            Tree(run).delete()
    logger.info("the backfill %s has %d groups, which the query takes with its next rows", name, made.groups)
    return made


def _newest(checkpoint: str) -> list[Manifest]:
    """The state of each of the query's operators by now.

    Raises:
        CheckpointError: there is none.
        StateLostError: it is in memory alone, where a query takes no backfill.
    """
    manifests = [state.manifest() for state in StoredState.of_operators(checkpoint)]
    if not all(manifest.in_checkpoint for manifest in manifests):
        raise StateLostError(
            f"the state of {checkpoint} is in memory alone, and a backfill comes by files: run the query with "
            "spark.slash.durability=checkpoint or both"
        )
    return manifests


def _planned(df: DataFrame, mode: OutputMode, checkpoint: str) -> tuple[DataFrame, list[OperatorPlan]]:
    """The rows by the settings that the query began with, and its operators, which can take a backfill and are those
    that the checkpoint has state of.
    """
    held = _newest(checkpoint)
    try:
        rows = begun(df, checkpoint)
        operators, _ = operators_of(rows, mode, session.conf_of(rows.sparkSession), checkpoint)
    except Uncovered as reason:
        raise UnsupportedQueryError(f"pyslash does not cover what is to be backfilled: {reason}") from None
    changed = []
    for one, plan in zip(held, operators, strict=False):
        # That some of the state was plain Spark's is no difference of the job.
        found = differences(one.identity, replace(plan.identity, is_adopted=one.is_adopted))
        names, others = ([key.sql for key in identity.keys] for identity in (one.identity, plan.identity))
        if names != others and sorted(names) == sorted(others):
            found.append(
                f"the state has the keys in another order, ({', '.join(names)}): name them so for the backfill"
            )
        changed += found
    if len(held) != len(operators):
        changed.append(f"operators with state: {len(held)} -> {len(operators)}")
    if changed:
        listed = "\n  ".join(changed)
        raise PlanMismatchError(f"this is not the job of the query whose state is to be backfilled:\n  {listed}")
    _check_takes(operators)
    return rows, operators


def _check_takes(operators: Sequence[OperatorPlan]) -> None:
    for operator in operators:
        if operator.backfill_obstacle:
            raise UnsupportedQueryError(f"{operator.summary} takes no backfill: {operator.backfill_obstacle}")
    first, *others = operators
    if any(one.sources != first.sources or not one.stands_on_others for one in others):
        raise UnsupportedQueryError(
            "the lowest stateful operator takes a backfill, and those above take the rows that it emits by that. This "
            "query has one that reads a stream beside it, whose history would come to it from nowhere"
        )


def _read(df: DataFrame, mode: OutputMode, location: str) -> None:
    """Turn all that there is into groups: as one micro-batch, in which no row is late and no window closes.

    Raises:
        InvalidInputError: there is nothing.
    """
    writer = df.writeStream.outputMode(mode).option("checkpointLocation", location)
    query = writer.trigger(once=True).foreachBatch(lambda rows, epoch: None).start()
    try:
        query.awaitTermination()
    finally:
        # Its files have all: the arenas are the query's that takes them.
        if (runner := runner_of(query)) is not None:
            runner.end(resumable=False)
    if not StoredState.at(location).manifests.names():
        raise InvalidInputError(
            "the history gives no micro-batch: nothing is there that its source would read. Name files that are there; "
            "a topic of Kafka is read from its startingOffsets, which are `latest` unless the job sets them"
        )


def _final_by(
    location: str, operators: Sequence[OperatorPlan], watermarks_us: Sequence[Micros]
) -> list[list[tuple[int, int]]]:
    """How many groups a run has left for each operator that come too late by which watermark, ascending. The
    operators' watermarks by now are those by which they are counted one by one.
    """
    found = []
    for state, plan, watermark_us in zip(StoredState.of_operators(location), operators, watermarks_us, strict=True):
        counts: Counter[int] = Counter()
        for begin, groups in _begins(state, plan.begin_at, watermark_us):
            counts[plan.emission.final_by(begin)] += groups
        found.append(sorted(counts.items()))
    return found


def _begins(state: StoredState, begin_at: int | None, watermark_us: Micros) -> Iterator[tuple[int, int]]:
    """When groups begin, and how many do: those of a pane, or of a minute, as if all began with its first one. But
    which of them begin by the watermark is told to the microsecond.
    """
    manifest = state.manifest()
    blocks = state.opened(manifest)
    if begin_at is None:
        yield from ((start, groups) for block in blocks for start, groups, _ in Head(block.head).panes)
        return
    for batch in merged(manifest, blocks, ALL_PREFIXES):
        begin = pc.fill_null(batch.column(begin_at).cast(pa.int64()), EVERY_END_US)
        is_past = pc.less_equal(begin, watermark_us)
        table = pa.table({"minute": pc.divide(begin, _MINUTE_US), "is past": is_past, "begin": begin})
        minutes = table.group_by(["minute", "is past"]).aggregate([("begin", "min"), ("begin", "count")])
        yield from zip(*(minutes.column(name).to_pylist() for name in ("begin_min", "begin_count")), strict=True)


def _check_late(made: Backfill, watermarks_us: Sequence[Micros]) -> None:
    count = made.late_groups(watermarks_us)
    if count and made.late == "refuse":
        raise InvalidInputError(
            f"{count} groups may be part of what the query has emitted for good, and dropped from its state. Filter "
            "the history by its event time, or give late='drop' to leave out what is over"
        )
