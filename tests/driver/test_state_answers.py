"""What the Spark UI asks of the state of queries: answers, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pyslash.driver import state_answers
from pyslash.driver.state_answers import StateAnswers
from pyslash.state.files.checkpoint_files import LocalFiles
from pyslash.state.manifest import MANIFESTS, RUNS, ManifestLog
from tests.support.manifests import manifest
from tests.support.two_epochs import IDENTITY, write_two_epochs

QUERY = str(uuid4())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """That of the one query that the application has started."""
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / QUERY).write_text(json.dumps({"name": None, "checkpoint": str(tmp_path / "checkpoint")}))
    return tmp_path / "checkpoint"


def ask(answers: StateAnswers, operator: int = 0, shows_keys: bool = True, query: str = QUERY) -> dict[str, Any]:
    question = json.dumps({"query": query, "operator": operator, "shows_keys": shows_keys})
    found: dict[str, Any] = json.loads(answers.apply(question))
    return found


def test_an_answer_has_keys_or_their_sizes_alone(checkpoint: Path) -> None:
    write_two_epochs(checkpoint)
    answers = StateAnswers(checkpoint.parent / "queries")
    shown, hidden = ask(answers), ask(answers, shows_keys=False)
    assert {one["key"][0] for one in shown["by_rows"]} == {*"0123456"}
    assert {(*one["key"],) for name in ("by_rows", "by_bytes") for one in hidden[name]} == {()}
    for name in ("by_rows", "by_bytes"):
        assert [{**one, "key": []} for one in shown[name]] == hidden[name]
    assert shown["key_names"] == hidden["key_names"] == ["k"]


def test_what_cannot_be_read_is_an_answer_too(checkpoint: Path) -> None:
    answers = StateAnswers(checkpoint.parent / "queries")
    assert "CheckpointError" in ask(answers)["error"]
    log = ManifestLog(LocalFiles(checkpoint / MANIFESTS), LocalFiles(checkpoint / RUNS))
    log.create(manifest(0, IDENTITY, run=log.take_over(), blocks=[("a" * 32, 0, 0)]))
    answers = StateAnswers(checkpoint.parent / "queries")
    assert "keeps its state in memory alone" in ask(answers)["error"]
    assert "has started no query" in ask(answers, query=str(uuid4()))["error"]
    assert "CheckpointError" in ask(answers, operator=1)["error"]


def test_who_asks_again_at_once_costs_nothing(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_two_epochs(checkpoint)
    now, read = [0.0], []
    monkeypatch.setattr(state_answers.time, "monotonic", lambda: now[0])
    real = state_answers.sizes_of
    monkeypatch.setattr(state_answers, "sizes_of", lambda *given: read.append(given) or real(*given))
    answers = StateAnswers(checkpoint.parent / "queries")
    first = ask(answers)
    now[0] = 1.9
    assert ask(answers) == first
    assert len(read) == 1
    ask(answers, shows_keys=False)
    assert len(read) == 2, "it is another question"
    ask(answers, shows_keys=False)
    now[0] = 4.0
    ask(answers, shows_keys=False)
    assert len(read) == 3
