"""The workloads: what rows there are, and the query over them."""

from __future__ import annotations

from eval.workloads.aggregate import Aggregate
from eval.workloads.arbitrary import Arbitrary
from eval.workloads.arcon import Arcon
from eval.workloads.base import Workload
from eval.workloads.deduplicated import Deduplicated
from eval.workloads.grouped import Grouped
from eval.workloads.joined import Joined
from eval.workloads.monitoring import CategoryLoad, JobLoad, JobUse
from eval.workloads.nexmark import BidderSessions, HighestBid, NewSellers, Nexmark
from eval.workloads.readonly import ReadOnly
from eval.workloads.shapes import Shape
from eval.workloads.spread import Spread
from eval.workloads.text_files import CsvEvents, JsonEvents
from eval.workloads.ysb import Ysb

_KINDS: tuple[type[Workload], ...] = (
    Aggregate,
    Ysb,
    CategoryLoad,
    JobLoad,
    HighestBid,
    BidderSessions,
    ReadOnly,
    Arcon,
    Grouped,
    Deduplicated,
    Arbitrary,
    Spread,
    Shape,
    Joined,
    JsonEvents,
    CsvEvents,
    Nexmark,
    NewSellers,
    JobUse,
)
WORKLOADS: dict[str, type[Workload]] = {kind.name: kind for kind in _KINDS}

__all__ = [
    "WORKLOADS",
    "Aggregate",
    "Arbitrary",
    "Arcon",
    "BidderSessions",
    "CategoryLoad",
    "CsvEvents",
    "Deduplicated",
    "Grouped",
    "HighestBid",
    "JobLoad",
    "JobUse",
    "Joined",
    "JsonEvents",
    "NewSellers",
    "Nexmark",
    "ReadOnly",
    "Shape",
    "Spread",
    "Workload",
    "Ysb",
]
