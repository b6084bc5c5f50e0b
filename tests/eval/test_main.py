"""The command line over engines that need nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval import __main__ as command
from eval import session, suites
from eval.session import Comparison
from tests.eval import fake, tiny


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`python -m eval suite ...` over a suite of two comparisons; returns its status and records."""
    comparisons = [Comparison(title, tiny.TUMBLING, ("good", "refuses", "wrong")) for title in ("one", "two")]
    for module in (command, session):
        monkeypatch.setattr(module, "ENGINES", fake.ENGINES)
    for module in (command, suites):
        monkeypatch.setattr(module, "SUITES", {"small": lambda _: comparisons, "none": lambda _: []})
    monkeypatch.setattr(session, "ORACLE", fake.Fake("good"))

    def run(*words: str) -> tuple[int, list[dict[str, Any]]]:
        out = tmp_path / "out.jsonl"
        arguments = ["eval", "suite", *words, "--repeats", "1", "--cache", str(tmp_path), "--out", str(out)]
        monkeypatch.setattr("sys.argv", arguments)
        status = command.main()
        return status, [json.loads(line) for line in out.read_text().splitlines()]

    return run


def test_a_suite_writes_runs_and_verdicts(suite: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, records = suite("small", "--engines", "good,refuses")
    assert status == 0
    assert [record.get("cannot") for record in records if record.get("engine") == "refuses"] == ["has no windows"] * 2
    assert [record["title"] for record in records if record.get("rows_per_second")] == ["one", "two"]
    assert next(record["met"] for record in records if "bar" in record) is True
    assert "rows equal Spark's" in capsys.readouterr().out


def test_wrong_rows_are_the_commands_failure(suite: Any) -> None:
    status, records = suite("all", "--engines", "wrong")
    assert status == 1
    assert next(record["met"] for record in records if "bar" in record) is False


def test_what_there_is_no_time_for_is_written_down(suite: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, records = suite("small", "--minutes", "0")
    assert status == 0
    assert [record["title"] for record in records if record.get("not_measured")] == ["one", "two"]
    assert "one: NOT MEASURED, the 0 minutes are over" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "by_window"), [("false", False), ("True", True)])
def test_a_switch_is_what_it_says(text: str, by_window: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`bool` takes each word for true."""
    compared: list[Comparison] = []
    monkeypatch.setattr(session.Session, "compare", lambda _, comparison: compared.append(comparison))
    words = [
        "--workload",
        "grouped",
        "--by-window",
        text,
        "--out",
        str(tmp_path / "out.jsonl"),
        "--cache",
        str(tmp_path),
    ]
    monkeypatch.setattr("sys.argv", ["eval", "run", *words])
    assert command.main() == 0
    assert [comparison.workload.describe()["by_window"] for comparison in compared] == [by_window]


@pytest.mark.parametrize("text", ["4", "4096m", "g"])
def test_a_heap_is_whole_gibibytes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["eval", "run", "--driver-memory", text])
    with pytest.raises(SystemExit):
        command.main()
