"""The demo's second engine is pyslash, or the demo fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyslash.cli import main
from pyslash.demo import main as demo
from pyslash.demo.run import DemoRunError


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "flights").mkdir()
    assert main(["demo", "--keep", str(tmp_path)]) == 1
    assert f"{tmp_path} is not empty" in capsys.readouterr().err


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
