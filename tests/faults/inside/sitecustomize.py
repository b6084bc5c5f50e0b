"""Loaded by every Python process of the executors of a fault test; in an agent it puts a fault point into a landing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

if "pyslash.agent" in sys.orig_argv and "serve" in sys.orig_argv and "PYSLASH_TESTS_ARMED" in os.environ:
    from pyslash.agent.gather import Landing
    from pyslash.protocol.descriptor import AgentDescriptor
    from pyslash.protocol.messages import Land

    class StruckLanding(Landing):
        """Strikes when a range of a peer's block lies in it, and others do not yet."""

        def land(self, request: Land) -> dict[str, Any]:
            """`Landing`."""
            self._peer = request.peer
            return super().land(request)

        def _write(self, data: Any, at: int) -> int:
            size = super()._write(data, at)
            order = Path(os.environ["PYSLASH_TESTS_ARMED"], "mid-landing")
            if order.exists():
                from tests.faults.strike import Strike

                if Strike.read(order).in_agent(AgentDescriptor.from_json(self._peer)):
                    super()._write(bytes([0xFF]) * size, at)
            return size

    import pyslash.agent.gather

    pyslash.agent.gather.Landing = StruckLanding  # type: ignore[misc]
