"""Tests of which `make test` runs some cases, and `make nightly` all."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def some_at_night(cases: Iterable[Any], at_night: Container[Any]) -> list[Any]:
    """The cases in their order, for pytest's parameters, those that wait for `make nightly` with its mark."""
    return [pytest.param(case, marks=pytest.mark.nightly) if case in at_night else case for case in cases]
