"""Every workload, so small that any engine runs it at once; some windows close in each."""

from __future__ import annotations

from eval.workloads import Aggregate, Arcon, CategoryLoad, HighestBid, JobLoad, JobUse, ReadOnly, Workload, Ysb

TUMBLING = Aggregate(rows=4_000, batches=2, span_s=60.0, keys=20)
SLIDING = Aggregate(rows=4_000, batches=2, span_s=60.0, keys=20, slide_s=5)
YSB = Ysb(rows=4_000, batches=2, span_s=60.0, campaigns=10)
READ_ONLY = ReadOnly(rows=4_000, batches=2, span_s=60.0)
OTHERS: list[Workload] = [
    CategoryLoad(rows=2_000, batches=2, span_s=90.0),
    JobLoad(rows=2_000, batches=2, span_s=90.0),
    JobUse(rows=2_000, batches=2, span_s=90.0),
    HighestBid(rows=4_000, batches=2, span_s=150.0),
    Arcon(rows=4_000, batches=2, span_s=60.0, iterations=20),
]
WINDOWED: list[Workload] = [TUMBLING, SLIDING, YSB, *OTHERS]
ALL = [*WINDOWED, READ_ONLY]


def name(workload: Workload) -> str:
    """For pytest's names of tests."""
    query = workload.statement
    return f"{workload.name}-{query.window_s}-{query.slide_s}-{workload.batches}"
