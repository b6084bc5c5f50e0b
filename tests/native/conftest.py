"""Fixtures of the native core's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyslash import _native
from tests.native.blocks import new_arena


@pytest.fixture
def arena() -> Iterator[_native.Arena]:
    """An arena of 64 MiB."""
    with new_arena() as arena:
        yield arena
