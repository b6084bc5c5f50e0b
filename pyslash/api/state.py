"""Lets a session read the state of queries as a table."""

from __future__ import annotations

from pyslash.inspect.state.source import register as register_state

__all__ = ["register_state"]
