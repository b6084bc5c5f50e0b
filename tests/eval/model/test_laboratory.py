"""The model fitted to few executors of the laboratory: what it predicts of more, and of what was recorded."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from eval.model import command, inputs, laboratory
from eval.model.costs import merge_s
from eval.model.inputs import InputError
from eval.model.laboratory import MOST_FITTED, Shape

RECORDED = Path(__file__).parents[3] / "eval" / "scale" / "spans.json"
SHAPE = Shape(blocks=16, tasks=2, keys=100_000, fold=True)
GROUP_BYTES = 24


def row(executors: int, per_peer: float = 2.0) -> dict[str, Any]:
    """A millisecond for each agent, two for each peer, three for each megabyte; merging takes twice its usual time."""
    megabytes = SHAPE.bytes_into(executors, GROUP_BYTES) * 1e-6
    phases = {
        "driver_ms": 1.0 + executors,
        "update_ms": 8.0,
        "busiest_agent_ms": 11.0 + per_peer * (executors - 1) + 3.0 * megabytes,
        "merge_ms": 2e3 * executors * merge_s(inputs.load(), *SHAPE.read(executors)),
    }
    own = {"fold_cpu_ms": 10.0, "commit_cpu_ms": 1.0, "megabytes": megabytes, "skew": "even"}
    return {"executors": executors, **own, **phases, "span_ms": sum(phases.values())}


def record(*rows: dict[str, Any]) -> dict[str, Any]:
    """As the laboratory writes it."""
    return {"command": "python -m eval scale", "load": vars(SHAPE), "rows": list(rows)}


def test_what_follows_the_model_is_predicted_as_it_is() -> None:
    checks = laboratory.checks(record(*map(row, (2, 4, 8, 16, 32))))
    by_count = {(check.what.split()[0], check.what.split(", ")[1]): check for check in checks}
    assert {count for (count, _), check in by_count.items() if check.given} == {"2", "4", "8"}
    assert [check.off for check in checks] == pytest.approx([1.0] * len(checks))


def test_bytes_grow_where_tasks_are_narrower_than_segments() -> None:
    into = [SHAPE.bytes_into(executors, 1) for executors in (2, 8, 32, 64)]
    # Of 100,000 groups there are 64 segments: two tasks of 64 executors read each of them twice.
    assert into == pytest.approx([50_000, 87_500, 96_875, 196_875])


def test_nothing_costs_less_than_nothing() -> None:
    fitted = laboratory.fit(record(*(row(executors, per_peer=-0.3) for executors in (2, 4, 8))))
    assert fitted.agent_peer == 0
    assert fitted.agent_megabyte > 0


@pytest.mark.parametrize("lacking", ["load", "span_ms"])
def test_a_record_without_phases_is_refused(lacking: str) -> None:
    old = record(row(2), row(4))
    old.pop(lacking, None)
    for one in old["rows"]:
        one.pop(lacking, None)
    with pytest.raises(InputError, match="no phases"):
        laboratory.fit(old)


def test_one_number_of_executors_is_no_fit() -> None:
    with pytest.raises(InputError, match="two or more"):
        laboratory.fit(record(row(2), row(16)))


@pytest.mark.parametrize("name", ["folded", "unfolded"])
def test_recorded_chains_of_more_executors_are_predicted_within_three_tenths(name: str) -> None:
    recorded = json.loads(RECORDED.read_text())[name]
    assert {one["executors"] for one in recorded["rows"]} >= {2, 4, 8, 16, 32}
    predicted = [check for check in laboratory.checks(recorded) if not check.given]
    for check in predicted:
        if "chain" in check.what or "read" in check.what:
            assert 1 / 1.3 < check.off < 1.3, check
    assert MOST_FITTED == 8


def test_the_command_prints_what_is_fitted_and_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    one, several, old = (tmp_path / name for name in ("one.json", "several.json", "old.json"))
    one.write_text(json.dumps(record(*map(row, (2, 8, 16)))))
    several.write_text(json.dumps({"folded": record(*map(row, (2, 4, 32)))}))
    old.write_text(json.dumps({"command": "", "rows": []}))
    assert command.main(parser.parse_args(["--fit", str(one), str(several)])) == 0
    printed = capsys.readouterr().out
    assert "16 executors, longest chain" in printed
    assert "32 executors, longest chain" in printed
    assert "2.00 for each peer, 3.00 for each MB" in printed
    assert command.main(parser.parse_args(["--fit", str(old)])) == 2
