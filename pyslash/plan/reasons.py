"""Why a query is not covered."""

from __future__ import annotations


class Uncovered(Exception):
    """A query, or a part of it, that runs on plain Spark; `str()` is the reason as a user reads it."""
