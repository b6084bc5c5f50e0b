"""Manifests for tests that look at some of their fields only."""

from __future__ import annotations

from typing import Any

from pyslash.plan.change.identity import PlanIdentity
from pyslash.state.manifest import Manifest


def manifest(epoch: int, plan: PlanIdentity, **fields: Any) -> Manifest:
    """The manifest of an epoch of run 1 in which nothing happened, but for `fields`."""
    nothing: dict[str, Any] = {
        "run": 1,
        "offsets": "0" * 64,
        "timestamp_ms": 0,
        "input": "",
        "emitted_us": 0,
        "watermark_us": 0,
        "rows": 0,
        "late_rows": 0,
        "times": [],
        "blocks": [],
        "agents": [],
        "files": [],
    }
    identity = {"plan": plan.text, "columns": list(plan.columns), "time": plan.time}
    return Manifest(epoch, **{**nothing, **identity, **fields})
