"""The application that the tests of this folder look at, and what they look with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eval.cluster.standalone import free_port
from tests.watch import processes
from tests.watch.application import Ready

_START_SECONDS = 240


@dataclass
class Watched:
    """The application: live until its history is asked for."""

    folder: Path
    ready: Ready
    process: Any
    _stack: ExitStack
    _history: str | None = field(default=None)

    def page(self, path: str) -> str:
        """A page of the live UI."""
        assert self._history is None, "the application has ended: tests of the live UI come first"
        return _there(self.ready.url + path)

    def history(self) -> str:
        """The address of the ended application's UI in a History Server."""
        if self._history is None:
            processes.end(self.process)
            port, log = free_port("127.0.0.1"), self.folder / "history.log"
            (self.folder / "store").mkdir()
            _forge(self.folder / "events", self.ready.runs["broken"])
            command = processes.history_server(self.folder / "events", self.folder / "store", port)
            server = self._stack.enter_context(processes.process(command, log))
            url = f"http://127.0.0.1:{port}/history/{self.ready.application}"
            processes.wait_for(lambda: processes.get(f"{url}/jobs/"), server, log, _START_SECONDS)
            self._history = url
        return self._history


def _forge(events: Path, run: str) -> None:
    """Adds epochs to the event log whose figures nothing can have counted, and events that say nothing."""
    (log,) = [file for file in events.rglob("*") if file.is_file() and not file.name.startswith((".", "appstatus"))]
    figures = ("rows", "update_ms", "merge_ms", "pinned_bytes", "spilled_bytes", "agents", "recoveries")
    lines = [
        f'{{"Event": "io.pyslash.ui.SlashEvent", {rest}}}' for rest in ('"kind": null', '"kind": "query", "figures": 7')
    ]
    for epoch, odd in enumerate(("1e999", "-1e999", "1e308", "123456789012345678901234567890", '"NaN"', '"Infinity"')):
        operator = ", ".join(f'"{name}": {odd}' for name in figures)
        told = f'"run": "{run}", "epoch": {900 + epoch}, "millis": {odd}, "wall_ms": {odd}, "retained": {odd}'
        told = f'{{{told}, "operators": [{{{operator}}}]}}'
        lines.append(f'{{"Event": "io.pyslash.ui.SlashEvent", "kind": "epoch", "figures": {told}}}')
    text = ("\n".join(lines) + "\n").encode()
    with log.open("ab") as end:
        end.write(pa.compress(text, codec="zstd", asbytes=True) if log.name.endswith(".zstd") else text)


def _there(url: str) -> str:
    found = processes.get(url)
    assert found is not None, url
    return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The application, its finite queries done."""
    folder = tmp_path_factory.mktemp("watched")
    with ExitStack() as stack:
        log = folder / "application.log"
        command = processes.application(folder, free_port("127.0.0.1"))
        running = stack.enter_context(processes.process(command, log))
        processes.wait_for((folder / "ready.json").exists, running, log, _START_SECONDS)
        yield Watched(folder, Ready.read(folder), running, stack)


@pytest.fixture
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("nobody looks at the tab: no chromium and chromium-driver (scripts/watch_tools.sh installs them)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="nobody looks at the tab: selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1280,1000", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield running
    finally:
        running.quit()
