"""What users see of queries: the tab of the Spark UI, live and in the History Server, metrics, the dashboard."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.parse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eval.cluster.standalone import free_port
from eval.watch import PROMETHEUS
from tests.watch import processes
from tests.watch.application import ALIKE, BATCHES, LISTS, RETAINED, ROWS
from tests.watch.conftest import Watched
from tests.watch.page import number, table

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "spark-conf" / "grafana"
# `make screenshots` makes those of docs/ui.md.
SCREENSHOTS = ROOT / os.environ.get("PYSLASH_SCREENSHOTS", "build/ui")
COUNTS = {
    "Rows": "rows",
    "Late rows": "late_rows",
    "Groups": "groups",
    "Windows": "windows",
    "Merged rows": "merged_rows",
    "Agents": "agents",
    "Recoveries": "recoveries",
}
PHASES = {
    f"{name.capitalize()} (ms)": f"{name}_ms" for name in ("update", "commit", "merge", "sink", "checkpoint", "replica")
}
WIDTH = 1280  # of a small screen
HELP = "a function with a native form"


def query_page(watched: Watched, name: str) -> str:
    return f"/slash/query/?run={watched.ready.runs[name]}"


def watermark(done: dict[str, Any]) -> str:
    """Of an epoch, as pages write it."""
    return f"{datetime.fromtimestamp(done['watermark_us'] // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def check_epochs(html: str, progress: list[dict[str, Any]], epochs: int) -> None:
    """The page has these epochs, the newest first, figure by figure."""
    rows = [{**done, **spent} for done, spent in zip(table(html, "epochs"), table(html, "spent"), strict=True)]
    assert [number(row["Epoch"]) for row in rows] == [done["epoch"] for done in reversed(progress)]
    for row, done in zip(rows, reversed(progress), strict=True):
        assert {name: number(row[name]) for name in COUNTS} == {name: done[key] for name, key in COUNTS.items()}
        assert row["Watermark (UTC)"] == watermark(done)
        assert row["Ingest"] == done["ingest"]
        assert row["Merged by"] == f"{done['merged_by']} {done['emit']}".strip()
        for header, phase in PHASES.items():
            assert number(row[header].split(".")[0]) == pytest.approx(done[phase], abs=1), header
        read = [part.split()[0] for part in row["Bytes read"].split(", ") if part]
        assert read == list(done["bytes_read"])
        assert number(row["Micro-batch (ms)"]) >= done["update_ms"]
    assert f"the last {RETAINED} of {epochs}" in html


def test_the_page_of_a_query_tells_what_progress_tells(watched: Watched) -> None:
    assert len(watched.ready.progress) == RETAINED < watched.ready.epochs
    html = watched.page(query_page(watched, "orders"))
    check_epochs(html, watched.ready.progress, watched.ready.epochs)
    assert [row["Agent"] for row in table(html, "agents")] == [*watched.ready.progress[-1]["memory"]]
    assert [row["In Spark's plan"] for row in table(html, "operators")] == ["StateStoreSave"]
    assert "files: Parquet is read natively" in table(html, "operators")[0]["How pyslash executes it"]


def test_the_first_page_has_all_queries(watched: Watched) -> None:
    html = watched.page("/slash/")
    running = {(row["Name"], row["Runs on"]) for row in table(html, "running")}
    assert running == {("clicks", "pyslash"), ("waiting", "pyslash")}
    ended = {row["Name"]: row for row in table(html, "ended")}
    assert {name: row["Runs on"] for name, row in ended.items()} == {
        "orders": "pyslash",
        watched.ready.copies: "plain Spark",
        LISTS: "plain Spark",
        "broken": "pyslash",
        "stranded": "plain Spark",
    } | dict.fromkeys(ALIKE, "pyslash")
    assert {name for name, row in ended.items() if row["Status"] != "FINISHED"} == {"broken"}
    assert ended["broken"]["Status"] == "FAILED"
    assert "function &lt;raises&gt; this" in watched.page(query_page(watched, "broken"))
    assert number(ended["orders"]["Rows"]) == BATCHES * ROWS
    assert number(ended["orders"]["Late rows"]) > 0
    assert ended["orders"]["Watermark (UTC)"] == watermark(watched.ready.progress[-1]) > "1970-01-01 00:15"
    assert ended["broken"]["Watermark (UTC)"] == "", "it has no epoch"
    fallbacks = {row["Name"]: row for row in table(html, "fallbacks")}
    assert fallbacks[LISTS]["Operator"] == "SessionWindowStateStoreSave"
    assert "collect_list(v) of a session has no native form" in fallbacks[LISTS]["Reason"]
    assert fallbacks[LISTS]["What would help"].startswith(HELP)
    assert "no stateful operator" in fallbacks[watched.ready.copies]["Reason"]
    assert "the first epoch failed" in fallbacks["stranded"]["Reason"]
    assert "/bin/false" in fallbacks["stranded"]["Reason"]


def test_a_query_has_a_row_for_each_of_its_operators(watched: Watched) -> None:
    html = watched.page(query_page(watched, "clicks"))
    assert [(row["Operator"], row["State"]) for row in table(html, "operators")] == [
        ("0", "Sizes and keys"),
        ("1", "Sizes and keys"),
    ]
    epochs, spent = table(html, "epochs"), table(html, "spent")
    assert [row["Operator"] for row in epochs] == ["0", "1"] * (len(epochs) // 2)
    assert {took["Agents"] for row, took in zip(epochs, spent, strict=True) if row["Rows"] != "0"} == {"1"}


def test_a_page_of_an_unknown_run_says_so(watched: Watched) -> None:
    assert "This run is not known" in watched.page("/slash/query/?run=<script>")


def too_wide(browser: Any) -> list[str]:
    """What of a page does not fit the window's width, by its id: a reader would have to scroll to the side."""
    script = """return [document.documentElement, ...document.querySelectorAll('.table-responsive')]
        .filter(one => one.scrollWidth > one.clientWidth)
        .map(one => (one.querySelector('table') || one).id + ': ' + one.scrollWidth + ' of ' + one.clientWidth)"""
    return list(browser.execute_script(script))


def test_a_browser_shows_it(watched: Watched, browser: Any) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    browser.get(watched.ready.url)
    browser.find_element("link text", "Slash").click()
    assert browser.find_element("css selector", "#fallbacks").is_displayed()
    assert too_wide(browser) == []
    browser.save_screenshot(str(SCREENSHOTS / "queries.png"))
    browser.find_element("css selector", "#ended").find_element("link text", LISTS).click()
    reason = browser.find_element("id", "reason")
    assert reason.is_displayed()
    assert HELP in reason.text
    browser.back()
    browser.find_element("css selector", "#ended").find_element("link text", "orders").click()
    assert len(browser.find_elements("css selector", "#epochs tbody tr")) == RETAINED
    for chart in ("rows", "phases", "memory"):
        bars = browser.find_elements("css selector", f"svg#{chart} rect:has(title)")
        told = {bar.find_element("css selector", "title").get_attribute("textContent").split(":")[0] for bar in bars}
        assert len(told) >= RETAINED - 1, chart  # the last epoch has no rows
        assert all(bar.size["width"] > 1 for bar in bars)
    legend = [text.text for text in browser.find_elements("css selector", "svg#phases text")]
    assert {"update", "checkpoint", "commit", "merge", "sink", "recovery", "Spark's own part"} <= set(legend)
    assert too_wide(browser) == []
    browser.set_window_size(WIDTH, 1900)
    browser.save_screenshot(str(SCREENSHOTS / "query.png"))
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def metrics(watched: Watched) -> dict[str, float]:
    """Those of pyslash, by their names behind the source's."""
    lines = watched.page(f"{PROMETHEUS}/").splitlines()
    found = (re.match(r"metrics_\w+?_driver_pyslash_(\w+)_(?:Count|Value)\{.*\} (.*)", line) for line in lines)
    return {match[1]: float(match[2]) for match in found if match}


def test_metrics_are_the_sums_of_epochs(watched: Watched) -> None:
    found = metrics(watched)
    assert found["fallbacks"] == 2  # a query without state is none
    assert found["activeQueries"] == 2  # one of them has no rows yet
    assert found["queries_orders_epochs"] == watched.ready.epochs
    assert found["queries_orders_rows"] == BATCHES * ROWS
    html = watched.page("/slash/")
    orders = next(row for row in table(html, "ended") if row["Name"] == "orders")
    assert found["queries_orders_lateRows"] == number(orders["Late rows"])
    assert found["queries_orders_updateMs"] >= sum(done["update_ms"] for done in watched.ready.progress) - 1
    assert "queries_orders_pinnedBytes" not in found  # it has ended
    assert found["queries_clicks_pinnedBytes"] > 0
    agent = next(iter(watched.ready.progress[-1]["memory"])).replace("-", "_")
    assert found[f"agents_{agent}_arenaBytes"] == 64 << 20
    assert 0 < found[f"agents_{agent}_usedBytes"] < 64 << 20


def test_names_that_are_alike_in_metrics_are_told_apart(watched: Watched) -> None:
    rows = [value for name, value in metrics(watched).items() if re.fullmatch(r"queries_______\w+_rows", name)]
    assert rows == [ROWS, ROWS]


def dashboard() -> list[tuple[str, str]]:
    """Panels and the expressions in them, with Grafana's variables filled in."""
    panels = json.loads((GRAFANA / "pyslash.json").read_text())["panels"]
    values = {"$application": ".*", "$query": ".*", "$__rate_interval": "10s"}
    found = []
    for panel in panels:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in values.items():
                expression = expression.replace(name, value)
            found.append((panel["title"], expression))
    return found


def test_the_dashboard_is_one_that_grafana_takes_as_it_is() -> None:
    found = json.loads((GRAFANA / "pyslash.json").read_text())
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert {x for x, _ in cells} == {*range(24)}
    assert {y for _, y in cells} == {*range(max(y for _, y in cells) + 1)}, "there is a gap between panels"
    declared = {variable["name"] for variable in found["templating"]["list"]}
    assert {*re.findall(r"\$\{?([a-z]+)", json.dumps(found))} == declared
    for panel in panels:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0, panel["title"]


def test_every_panel_of_the_dashboard_has_data(watched: Watched, tmp_path: Path) -> None:
    program = shutil.which("prometheus") or shutil.which("prometheus", path=str(ROOT / "build/prometheus/usr/bin"))
    if program is None:
        pytest.skip("nobody reads the dashboard's expressions: no prometheus (scripts/watch_tools.sh fetches it)")
    config = (GRAFANA / "prometheus.yml").read_text()
    target = watched.ready.url.removeprefix("http://")
    assert "localhost:4040" in config
    config = config.replace("localhost:4040", target).replace("scrape_interval: 5s", "scrape_interval: 500ms")
    (tmp_path / "prometheus.yml").write_text(
        config.replace("scrape_interval", "scrape_timeout: 500ms\n  scrape_interval")
    )
    port, log = free_port("127.0.0.1"), tmp_path / "prometheus.log"
    command = [
        program,
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]

    def ask(expression: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"query": expression})
        answer = processes.get(f"http://127.0.0.1:{port}/api/v1/query?{query}")
        return list(json.loads(answer)["data"]["result"]) if answer else []

    with processes.process(command, log) as running:
        two = 'count_over_time(pyslash_query_rows{query="clicks"}[1m]) > 3'
        processes.wait_for(lambda: ask(two), running, log, 60)
        assert [(title, text) for title, text in dashboard() if not ask(text)] == []
        [orders] = ask('pyslash_query_rows{query="orders"}')
        assert (float(orders["value"][1]), orders["metric"]["application"]) == (
            BATCHES * ROWS,
            watched.ready.application.replace("-", "_"),
        )
        assert {found["metric"]["transport"] for found in ask('pyslash_query_bytesRead{query="orders"}')} == {"Shm"}
        assert float(ask("pyslash_fallbacks")[0]["value"][1]) == 2
        [agent] = ask("pyslash_agent_usedBytes / pyslash_agent_arenaBytes")
        assert 0 < float(agent["value"][1]) < 1


def test_the_history_server_shows_the_same(watched: Watched) -> None:
    url = watched.history()
    html = processes.get(url + query_page(watched, "orders"))
    assert html is not None
    check_epochs(html, watched.ready.progress, watched.ready.epochs)
    first = processes.get(f"{url}/slash/")
    assert first is not None
    assert table(first, "running") == []
    state = processes.get(f"{url}/slash/state/?run={watched.ready.runs['clicks']}&operator=0")
    assert "The query does not run any more" in str(state)
    assert "Sizes and keys" not in str(processes.get(url + query_page(watched, "clicks")))
    names = {watched.ready.copies if name == "copies" else name for name in watched.ready.runs}
    assert {row["Name"] for row in table(first, "ended")} == names
    assert next(row for row in table(first, "fallbacks") if row["Name"] == LISTS)["What would help"].startswith(HELP)


def test_figures_that_nothing_can_have_counted_are_none(watched: Watched) -> None:
    """An event log is a file: with an infinite number in it a chart looked for the end of its axis for ever."""
    html = processes.get(watched.history() + query_page(watched, "broken"))
    assert html is not None
    done, spent = ([row for row in table(html, name) if number(row["Epoch"]) >= 900] for name in ("epochs", "spent"))
    assert len(done) == len(spent) == 6
    assert {row["Rows"] for row in done} == {"0"}
    assert {(row["Update (ms)"], row["Pinned"]) for row in spent} == {("0.0", "0 B")}
    assert "Infinity" not in html
    assert "NaN" not in html


def test_a_browser_shows_the_history(watched: Watched, browser: Any) -> None:
    browser.get(f"{watched.history()}/jobs/")
    browser.find_element("link text", "Slash").click()
    browser.find_element("css selector", "#ended").find_element("link text", "orders").click()
    assert len(browser.find_elements("css selector", "#epochs tbody tr")) == RETAINED
