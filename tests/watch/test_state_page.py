"""The page of a query's state: its size, and the keys with the most of it, against the rows that queries have read."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eval.cluster.standalone import free_port
from pyslash.cli import main
from tests.support.processors import COVERED, WHY_NOT
from tests.watch import processes
from tests.watch.holding import CRAWLER, LONG, MARKUP, ODD, ROWS, SLICE, WATERMARK, Holding, Row
from tests.watch.page import number, table

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / os.environ.get("PYSLASH_SCREENSHOTS", "build/ui")
_START_SECONDS = 240
TOP = 20
ALL = [row for batch in ROWS for row in batch]
# As pages write them.
TEXTS = {LONG: LONG[:100] + "…", ODD: "\\u202e\\n" + "odd" * 10, None: "null"}


@pytest.fixture(scope="module")
def holding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holding]:
    """The application, its queries at rest."""
    folder = tmp_path_factory.mktemp("holding")
    log = folder / "application.log"
    command = processes.application(folder, free_port("127.0.0.1"), "tests.watch.holding")
    with processes.process(command, log) as running:
        processes.wait_for((folder / "ready.json").exists, running, log, _START_SECONDS)
        yield Holding.read(folder)
        processes.end(running)


def page(holding: Holding, name: str, operator: object = 0) -> str:
    """Of the state of a query's operator."""
    found = processes.get(f"{holding.url}/slash/state/?run={holding.runs[name]}&operator={operator}")
    assert found is not None
    return found


def counted(rows: Iterable[Row]) -> Counter[str]:
    """How many there are of each key, as pages write it."""
    return Counter(TEXTS.get(key, str(key)) for _, key, _ in rows)


def check_rows(html: str, key: str, expected: Counter[str]) -> None:
    """The tables have these counts, the largest first."""
    assert "Read for this page:</strong> all of it<" in html
    by_rows = [(row[key], number(row["Rows"])) for row in table(html, "by-rows")]
    assert number(table(html, "by-rows")[0]["Rows"]) / expected.total() == pytest.approx(
        float(table(html, "by-rows")[0]["Share of rows"].split()[0]) / 100, abs=0.001
    )
    assert [count for _, count in by_rows] == [count for _, count in expected.most_common(TOP)]
    for name, count in [*by_rows, *((row[key], number(row["Rows"])) for row in table(html, "by-bytes"))]:
        assert expected[name] == count, name


def size(cell: str) -> float:
    """Bytes, as pages write them."""
    digits, unit = cell.split()
    return float(digits) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def check_bytes(html: str) -> None:
    """Keys with the most bytes come first, and the sizes that the page tells go together."""
    sizes = [size(row["Bytes"]) for row in table(html, "by-bytes")]
    assert sizes == sorted(sizes, reverse=True)
    whole = re.search(r"State:</strong> ([\d.]+ \w+) in ([\d,]+) parts", html)
    assert whole is not None
    assert sum(sizes) <= size(whole[1]) * 1.1
    shares = [float(row["Share of bytes"].split()[0]) for row in table(html, "by-bytes")]
    assert shares[0] == pytest.approx(100 * sizes[0] / size(whole[1]), rel=0.1, abs=0.1)


OPEN = [row for row in ALL if row[0] >= WATERMARK // SLICE * SLICE]


def test_groups_of_open_windows(holding: Holding) -> None:
    html = page(holding, "windows")
    check_rows(html, "k", counted(OPEN))
    check_bytes(html)
    assert 0 < len(OPEN) < len(ALL)
    assert table(html, "by-rows")[0]["k"] == CRAWLER
    starts = sorted({time - time % SLICE for time, _, _ in OPEN})
    assert [row["Begins (UTC)"] for row in table(html, "slices")] == [
        f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M:%S}" for start in starts
    ]
    assert f"Watermark (UTC):</strong> {datetime.fromtimestamp(WATERMARK, UTC):%Y-%m-%d %H:%M:%S}" in html


def test_lists_are_as_large_as_they_are_long(holding: Holding) -> None:
    """Where Spark's own code computes, and native code keeps its buffers, bytes are those of the key's values."""
    html = page(holding, "lists")
    check_bytes(html)
    first, *others = table(html, "by-bytes")
    assert first["k"] == CRAWLER
    assert size(first["Bytes"]) > 8 * counted(OPEN)[CRAWLER]
    assert size(first["Bytes"]) > 3 * max(size(row["Bytes"]) for row in others)
    assert "Keys with the most buffers" in html


def test_sessions_and_deduplications_have_rows_of_all_their_keys(holding: Holding) -> None:
    sessions, distinct = page(holding, "sessions"), page(holding, "distinct")
    check_rows(sessions, "k", counted(ALL))
    check_bytes(sessions)
    check_bytes(distinct)
    assert {row["k"] for row in table(distinct, "by-bytes")} <= {*counted(ALL)}
    for html in (sessions, distinct):
        assert 'id="slices"' not in html, "it has no slices of event time"


def test_a_query_without_a_watermark_has_none(holding: Holding) -> None:
    assert "Watermark (UTC):</strong> -</li>" in page(holding, "timeless")


def test_rows_that_a_join_keeps_are_those_of_both_sides(holding: Holding) -> None:
    html = page(holding, "pairs")
    # A key is what the condition holds equal: the key, and whether the number is odd. Nulls equal nothing.
    kept = counted((time, f"{TEXTS.get(key, key)}, {n % 2}", n) for time, key, n in 2 * ALL if key is not None)
    [condition, *_] = table(html, "by-rows")[0]
    check_rows(html, condition, kept)
    check_bytes(html)
    assert "Keys with the most rows kept (any other has at most " in html


@pytest.mark.skipif(not COVERED, reason=WHY_NOT)
def test_keys_of_a_processor_have_what_it_keeps_of_them(holding: Holding) -> None:
    html = page(holding, "processor")
    first, second, *_ = table(html, "by-bytes")
    [key, *_] = first
    assert first[key] == CRAWLER
    assert size(first["Bytes"]) > 9 * counted(ALL)[CRAWLER] > size(second["Bytes"])


def test_each_operator_has_its_own_state(holding: Holding) -> None:
    rows = {(time, key) for time, key, _ in OPEN}
    check_rows(page(holding, "two", 1), "k", counted((time, key, 0) for time, key in rows))
    first = table(page(holding, "two", 0), "by-rows")
    assert [*first[0]][:2] == ["ts", "k"]
    assert {(row["ts"][11:19], row["k"]) for row in first} <= {
        (f"{datetime.fromtimestamp(time, UTC):%H:%M:%S}", TEXTS.get(key, str(key))) for time, key, _ in ALL
    }


def test_keys_are_not_shown_where_the_query_says_so(holding: Holding) -> None:
    html = page(holding, "hidden")
    rows = table(html, "by-rows")
    assert {row["k"] for row in rows} == {"(not shown)"}
    assert [number(row["Rows"]) for row in rows] == [count for _, count in counted(OPEN).most_common(TOP)]
    assert CRAWLER not in html
    assert "user 1" not in html


def test_the_command_tells_the_same(holding: Holding, capsys: pytest.CaptureFixture[str]) -> None:
    html = page(holding, "windows")
    assert main(["state", "keys", holding.checkpoints["windows"], "--top", str(TOP)]) == 0
    head, slices, by_rows, by_bytes = capsys.readouterr().out.split("\n\n")
    assert head.startswith("aggregation as of epoch ")
    assert len(slices.splitlines()) == 2 + len(table(html, "slices"))
    for name, text in (("by-rows", by_rows), ("by-bytes", by_bytes)):
        told = [re.split(r"  +", line) for line in text.strip().splitlines()[2:]]
        assert [words[:2] for words in told] == [[row["k"], row["Rows"]] for row in table(html, name)]


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (lambda runs: f"run={runs['over']}&operator=0", "does not run any more"),
        (lambda runs: f"run={runs['windows']}&operator=1", "has no stateful operator of this number"),
        (lambda runs: f"run={runs['windows']}&operator=-1", "has no stateful operator of this number"),
        (lambda runs: f"run={runs['windows']}&operator=<script>", "has no stateful operator of this number"),
        (lambda runs: f"run={runs['windows']}", "has no stateful operator of this number"),
        (lambda runs: "run=<script>&operator=0", "This run is not known"),
        (lambda runs: "", "This run is not known"),
    ],
)
def test_what_is_not_there_is_said(holding: Holding, address: Callable[[Any], str], told: str) -> None:
    html = processes.get(f"{holding.url}/slash/state/?{address(holding.runs)}")
    assert html is not None
    assert told in html


def test_a_browser_shows_keys_as_text(holding: Holding, browser: Any) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    browser.get(f"{holding.url}/slash/")
    browser.find_element("css selector", "#running").find_element("link text", "windows").click()
    browser.find_element("css selector", "#operators").find_element("link text", "Sizes and keys").click()
    keys = [cell.text for cell in browser.find_elements("css selector", "#by-bytes tbody td:first-child")]
    assert {MARKUP, TEXTS[LONG], TEXTS[ODD]} <= {*keys}
    assert browser.find_elements("css selector", "td script") == []
    assert "State of query windows" in browser.title
    width = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(width) == 0
    browser.save_screenshot(str(SCREENSHOTS / "state.png"))
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    browser.get(f"{holding.url}/slash/query/?run={holding.runs['over']}")
    assert browser.find_elements("link text", "Sizes and keys") == []
