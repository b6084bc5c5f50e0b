"""The page: every section that has figures, nothing from elsewhere, and nothing that a browser would trip over."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eval.records import Results
from eval.report import command, figures
from eval.report.page import page
from tests.eval.report.lines import failed, run


def everything() -> list[dict[str, Any]]:
    lines = [{"session": "s", "command": "python -m eval bars --rows 5 <&>"}]
    for title, workload in (("tumbling", {}), ("sliding", {"slide_s": 1})):
        for engine, rate in (("slash", 6e6), ("spark-rocksdb", 1e6)):
            more = {"cpu_seconds": 3.0, "peak_bytes": 3 << 30, "batch_ms": list(range(100, 140)), "conf": {"k": "v"}}
            lines.append(run(engine, rate, title=title, workload=workload, **more))
        lines.append(run("duckdb", 30e6, title=title, workload=workload, kind="batch bound", batch_ms=None))
    for skew in (0.0, 1.0):
        for keys in (10, 1000):
            workload = {"skew": skew, "keys": keys}
            lines.append(run("slash", 2e6, title=f"{skew} {keys}", workload=workload))
    lines += [run("slash", n * 1e6, title=f"weak {n}", nodes=n, scaling="weak", workload={"rows": n}) for n in (1, 2)]
    lines += [
        {"session": "s", "bar": "a <bar>", "figure": "5x", "wanted": ">= 6x", "met": met} for met in (True, False)
    ]
    lines += [{"session": "s", "bar": "another", "figure": "-", "wanted": ">= 6x", "met": None}]
    lines += [{"session": "s", "bar": "an aim", "figure": "7x", "wanted": "(>= 9x, an aim)", "met": False}]
    lines += [{"session": "s", "title": "sliding", "not_measured": "out of time"}]
    lines += [{"session": "s", "title": "tumbling", "engine": "flink", "cannot": "not installed <here>"}]
    return [*lines, {"port": "rxe0/1", "bytes": 64, "perftest_mib_s": 1.0, "pipeline_mib_s": 0.9}]


@pytest.fixture(scope="module")
def text() -> str:
    kernels = [{"context": {"mhz_per_cpu": 2500}, "benchmarks": [{"name": "merge", "cycles/record": 61.5}]}]
    return page(Results(everything(), kernels), title="A <title>")


def test_every_section_is_there(text: str) -> None:
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    wanted = ["Bars", "Ratios", "Throughput", "Cycles a row", "Latency", "Skew", "Cardinality", "Slide", "Scaling"]
    assert titles == [*wanted, "RDMA reads", "All figures", "Machines and commands"]
    assert "1 reached, 1 not reached, 1 not measured" in text
    assert "Not measured: sliding (out of time)." in text
    assert "6.00x" in text
    assert "61.5" in text


def test_words_from_files_are_escaped(text: str) -> None:
    for raw in ("<title> ", "a <bar>", "<here>", "<&>"):
        assert raw not in text
    assert "a &lt;bar&gt;" in text


def test_nothing_is_loaded_and_nothing_runs(text: str) -> None:
    assert not re.search(r"https?:|<script|<link|@import|src=", text)


def test_drawings_are_well_formed_and_their_ids_are_their_own(text: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) >= 8
    for drawing in drawings:
        ElementTree.fromstring(drawing)
        assert "currentColor" in drawing
        made = set(re.findall(r'id="([^"]+)"', drawing))
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawing)) <= made
    ids = Counter(re.findall(r'id="([^"]+)"', text))
    assert [name for name, count in ids.items() if count > 1] == []


def test_a_file_of_almost_nothing_makes_a_page() -> None:
    text = page(Results([{"engine": "slash", "error": "it failed"}], []))
    assert "failed: it failed" in text
    assert "<svg" not in text


def test_a_figure_of_an_engine_that_failed_later_says_so() -> None:
    text = page(Results([run("slash", 2e6), run("spark-rocksdb", 1e6), failed("slash", "arena <full>")], []))
    assert 'agree <span class="missed">failed: arena &lt;full&gt;</span>' in text
    assert "2.00x" not in text


def test_the_99th_percentile_is_not_the_slowest_of_a_hundred() -> None:
    assert '<td class="n">99</td>' in page(Results([run("slash", 2e6, batch_ms=[*range(1, 100), 5000])], []))


def test_the_command_prints_the_table_and_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse
    import json

    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps(line) + "\n" for line in everything()))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.main(parser.parse_args([str(lines), "--out", str(tmp_path / "out" / "report.html")])) == 0
    assert "6.00x" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")


def test_the_headline_is_a_plot_of_its_own(tmp_path: Path) -> None:
    titles = figures.HEADLINE
    records = [run(engine, 1e6, title=title) for title in titles for engine in ("slash", "spark-rocksdb")]
    figures.save_headline(tmp_path / "plot.svg", Results(records, []), "spark-rocksdb")
    shown = "".join(ElementTree.parse(tmp_path / "plot.svg").getroot().itertext())
    assert all(title in shown for title in titles)
    with pytest.raises(ValueError, match=titles[-1]):
        figures.save_headline(tmp_path / "plot.svg", Results(records[:-2], []), "spark-rocksdb")


def test_a_plot_of_what_was_not_measured_is_refused_with_what_to_do(tmp_path: Path) -> None:
    import argparse
    import json

    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(run("slash", 1e6)) + "\n")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with pytest.raises(SystemExit, match="eval suite windows large"):
        command.main(parser.parse_args([str(lines), "--plot", str(tmp_path / "plot.svg")]))
