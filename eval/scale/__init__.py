"""Executors by the dozen on one machine: what a merge makes each of them do, as work and span, not as wall time."""
