"""What may stand behind README's figures: one session, whose commit and machine are known."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from eval import machine
from eval.report import keep
from eval.report.keep import KeepError, kept
from tests.eval.report.lines import MACHINE, run

CLEAN = {**MACHINE, "commit": "0123456789ab"}


def session(**known: Any) -> list[dict[str, Any]]:
    """Lines of one."""
    return [
        {"session": "s", "command": "python -m eval suite", "machine": {**CLEAN, **known}},
        run("slash", 1e6, conf={"a": "b"}),
        run("slash", 2e6, conf={"a": "b"}),
        run("spark-hdfs", 2e6, conf={"a": "b"}),
    ]


def test_a_session_is_kept_with_each_conf_once(tmp_path: Path) -> None:
    results, out = tmp_path / "session.jsonl", tmp_path / "new" / "README.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in session()))
    assert keep.main(argparse.Namespace(results=[results], out=out)) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[0]["machine"]["commit"] == "0123456789ab"
    assert ["conf" in line for line in lines] == [False, True, False, True]
    assert [line["rows_per_second"] for line in lines[1:]] == [1e6, 2e6, 2e6]


def test_several_sessions_are_for_another_file_than_readmes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.jsonl", "two.jsonl")]
    for file in files:
        file.write_text("".join(json.dumps(line) + "\n" for line in session()))
    with pytest.raises(SystemExit, match="of one session"):
        keep.main(argparse.Namespace(results=files, out=keep.KEPT))
    out = tmp_path / "NEXMARK.jsonl"
    assert keep.main(argparse.Namespace(results=files, out=out)) == 0
    assert len(out.read_text().splitlines()) == 2 * len(session())


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (session(commit="0123456789ab+"), "changes beyond commit 0123456789ab"),
        (session(commit="unknown"), "does not say commit"),
        (session(cpu="unknown", pyspark="unknown"), "does not say cpu, pyspark"),
        ([*session(), run("slash", 1e6, session="another")], "lines of 2 sessions"),
        ([], "lines of 0 sessions"),
    ],
)
def test_others_are_not(lines: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(KeepError, match=said):
        kept(lines)


def test_a_machine_tells_what_is_wanted() -> None:
    assert set(keep.WANTED) <= machine.describe().keys()
