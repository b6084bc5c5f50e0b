"""The page of what is proven says of a cell only what runs have shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.streaming.streams.cells import BETWEEN, FILES, OTHERS, Cell, cells
from tests.streaming.streams.draw import draw
from tests.streaming.streams.proven import Seen, keep, page, read

FIRST = cells(FILES)[0]


def _row(text: str, name: str) -> list[str]:
    """The cells of a table's row."""
    return next(line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith(f"| {name} "))


def test_nothing_was_seen() -> None:
    text = page([])
    assert "0 streams on PySpark none: 0 were equal, 0 differed." in text
    assert _row(text, "window, append")[1:] == ["not seen"] * len((*FILES, *OTHERS))
    assert [line for line in text.splitlines() if line.endswith("| all | all: not seen |")] == [
        f"| {source} | all | all: not seen |" for source in (*FILES, *OTHERS)
    ]


def test_a_cell_that_differed_once_is_not_proven() -> None:
    equal = [Seen("4.3.0", seed, cell, True) for seed, cell in enumerate(cells(FILES))]
    assert _row(page(equal), "window, append")[1] == str(len(BETWEEN))
    text = page([*equal, Seen("4.3.0", 10_000, FIRST, False)])
    assert _row(text, "window, append")[1] == str(len(BETWEEN) - 1)
    assert f"| {FIRST.source} | {FIRST.operator}, {FIRST.mode} | {FIRST.between} (differs) |" in text


def test_all_was_seen() -> None:
    every = [Seen("4.3.0", seed, cell, True) for seed, cell in enumerate(cells((*FILES, *OTHERS)))]
    assert "Nothing: every combination was seen equal." in page(every)


def test_nothing_that_equals_nothing_is_told_apart() -> None:
    every = cells((*FILES, *OTHERS))
    seen = [Seen("4.3.0", seed, cell, True, rows=seed) for seed, cell in enumerate(every)]  # the first one gave none
    assert f"{len(every) - 1} of these were seen equal in a stream that gave rows.\n\n" in page(seen)
    again = [Seen("4.3.0", 10_000, FIRST, False, rows=5), Seen("4.3.0", 10_001, every[1], True)]
    told = f"{len(every) - 1} of these were seen equal in a stream that gave rows.\nResults of 1 of the streams"
    assert told in page([*seen, *again])
    differed = Seen("4.3.0", 10_002, every[2], False, rows=5)
    assert f"{len(every) - 2} of these were seen equal" in page([*seen, *again, differed])


def test_results_that_did_not_count_rows_are_read(tmp_path: Path) -> None:
    case = draw(3)
    keep(tmp_path / "new", case, equal=True, rows=7)
    line = json.loads((tmp_path / "new").read_text())
    assert line.pop("rows") == 7
    (tmp_path / "old").write_text(json.dumps(line) + "\n")
    (found,) = read([tmp_path / "old"])
    assert (found.equal, found.rows) == (True, None)
    assert "1 of 3680 combinations were seen equal" in page([found])
    assert "gave rows" not in page([found])
    assert "1 of these were seen equal in a stream that gave rows." in page(read([tmp_path / "new"]))


def test_the_last_run_of_a_seed_counts(tmp_path: Path) -> None:
    case = draw(3)
    keep(tmp_path / "results", case, equal=False)
    keep(tmp_path / "results", case, equal=True)
    keep(tmp_path / "results", replace(case, seed=4), equal=True)
    found = read([tmp_path / "results"])
    assert [(one.seed, one.equal, one.cell) for one in found] == [(3, True, case.cell), (4, True, case.cell)]
    assert isinstance(found[0].cell, Cell)
