"""What the process beside the driver takes for its own release of Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from pyslash.side_car.__main__ import _obstacle


@pytest.mark.parametrize("suffix", ["", "-amzn-0", "-preview1"])
def test_a_vendors_name_of_a_release_is_that_release(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0+amzn.0")
    door: Any = SimpleNamespace(context=lambda: SimpleNamespace(version=lambda: f"4.3.0{suffix}"))
    assert _obstacle(door) is None
    other: Any = SimpleNamespace(context=lambda: SimpleNamespace(version=lambda: "4.2.0"))
    assert "has PySpark 4.3.0+amzn.0 beside Spark 4.2.0" in str(_obstacle(other))
