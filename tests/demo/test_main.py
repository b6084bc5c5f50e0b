"""The demo's second engine is pyslash, or the demo fails."""

from __future__ import annotations

from typing import Any

import pytest

from pyslash.cli import main
from pyslash.demo import main as demo
from pyslash.demo.run import DemoRunError


def test_plain_spark_does_not_pass_for_pyslash(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, list[str]] = {}

    def run_job(name: str, *arguments: Any) -> None:
        options[name] = list(arguments[4])
        if name == demo.SLASH:
            raise DemoRunError("that is enough")

    monkeypatch.setattr(demo, "run_job", run_job)
    assert main(["demo", "--quick"]) == 1
    assert "spark.slash.mode=require" in options[demo.SLASH]
    assert "spark.slash.mode=require" not in options.get(demo.PLAIN, [])
