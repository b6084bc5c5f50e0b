"""Reads of live state while the query loses an executor, which keeps the query waiting and the reads not.

The query of `live_state` runs on two executors, with standbys. Another application reads its state again and again,
then one executor is killed, and it goes on reading.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from eval.bars import Bar
from eval.history.beside import beside
from eval.history.live_state import checked, filled, grouped, read_again_and_again, scan
from eval.history.setting import Setting
from eval.history.trickle import batches_table, drained, micro_batches, running, watched
from eval.loss import EXECUTORS, Replacement, kill_an_executor
from eval.one_session import session
from eval.session import say

BEFORE, LOST = "before", "from the kill to the end of the reads"


def measure(setting: Setting) -> dict[str, Any]:
    """Seconds of reads before an executor is killed and from then on, and what the query does meanwhile."""
    say(f"a lost executor: a query with {setting.groups:,} groups")
    cluster = {
        "spark.master": f"local-cluster[{EXECUTORS},1,1024]",
        "spark.executor.memory": "1g",
        "spark.local.dir": str(setting.folder / "spark"),
        "spark.slash.durability": "both",
    }
    trickle, checkpoint = filled(setting), setting.folder / "checkpoint"
    with beside("history", setting.conf, setting.nice) as other:
        spark = session("history", cluster | setting.conf)
        try:
            writer = grouped(trickle.stream(spark)).writeStream.format("noop")
            with running(writer, checkpoint, trickle) as query:
                spans = {BEFORE: watched(query, setting.seconds)}
                reads = {BEFORE: read_again_and_again(setting.seconds, other.ask, "path", str(checkpoint))}
                replacement = Replacement(spark)
                replacement.start()
                began = time.time()
                kill_an_executor(spark)
                reads[LOST] = read_again_and_again(setting.seconds, other.ask, "path", str(checkpoint))
                spans[LOST] = began, time.time()
                replacement.join()
                trickle.stop()
                drained(query, trickle)
                last = other.ask(scan, "path", str(checkpoint))
                entries = query.recentProgress
        finally:
            spark.stop()
    warm = {BEFORE: reads[BEFORE][1:], LOST: reads[LOST]}
    return {
        "groups": setting.groups,
        "nice": setting.nice,
        "read_seconds": {phase: [one["seconds"] for one in found] for phase, found in warm.items()},
        "replaced_after_seconds": replacement.seconds,
        "micro_batches": {phase: micro_batches(entries, *span) for phase, span in spans.items()},
        **checked(reads, last, setting.groups, trickle),
    }


def bars(found: dict[str, Any]) -> list[Bar]:
    """An executor was lost; no read noticed."""
    seconds = found["replaced_after_seconds"]
    lost = Bar(
        "an executor was lost and replaced", f"{seconds and round(seconds, 1)} s", "within the reads", bool(seconds)
    )
    return [lost, Bar("reads meanwhile are right", str(found["correct"]), "True", found["correct"])]


def table(found: dict[str, Any]) -> str:
    """Reads and micro-batches."""
    seconds = found["replaced_after_seconds"]
    replaced = f"replaced after {seconds:.1f} s" if seconds else "not replaced"
    lines = [f"\na lost executor, {replaced}; state of {found['groups']:,} groups"]
    for phase, took in found["read_seconds"].items():
        lines.append(f"  {phase:40}{len(took):4} reads, {statistics.median(took):6.2f} s, longest {max(took):6.2f} s")
    return "\n".join([*lines, batches_table(found["micro_batches"])])
