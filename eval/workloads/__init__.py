"""The workloads: what rows there are, and the query over them."""

from __future__ import annotations

from eval.workloads.aggregate import Aggregate
from eval.workloads.base import Workload
from eval.workloads.ysb import Ysb

WORKLOADS: dict[str, type[Workload]] = {Aggregate.name: Aggregate, Ysb.name: Ysb}

__all__ = ["WORKLOADS", "Aggregate", "Workload", "Ysb"]
