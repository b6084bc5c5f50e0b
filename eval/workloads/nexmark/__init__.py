"""NEXMark: the published benchmark's queries over its events; and those that the RDMA literature takes from it."""

from eval.workloads.nexmark.catalogue import LEFT_OUT, QUERIES
from eval.workloads.nexmark.flink import SELECTS
from eval.workloads.nexmark.literature import BidderSessions, HighestBid, NewSellers
from eval.workloads.nexmark.workload import RATE, Nexmark

__all__ = ["LEFT_OUT", "QUERIES", "RATE", "SELECTS", "BidderSessions", "HighestBid", "NewSellers", "Nexmark"]
