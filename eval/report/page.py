"""One self-contained HTML page: bars, plots, tables, machines, commands. No scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from string import Template

from eval.records import BASELINE, Results
from eval.report import figures, sections, sweeps

_TEMPLATE = Path(__file__).with_name("page.html")


def page(results: Results, baseline: str = BASELINE, title: str = "pyslash, measured") -> str:
    """The report of these results, as HTML."""
    parts = [(name, body) for name, body in _parts(results, baseline) if body]
    return Template(_TEMPLATE.read_text()).substitute(
        title=html.escape(title),
        summary=sections.summary(results),
        contents=" ".join(f'<a href="#{_anchor(name)}">{html.escape(name)}</a>' for name, _ in parts),
        sections="\n".join(
            f'<section id="{_anchor(name)}"><h2>{html.escape(name)}</h2>\n{body}</section>' for name, body in parts
        ),
    )


def _parts(results: Results, baseline: str) -> Iterable[tuple[str, str]]:
    yield "Bars", sections.bars(results)
    yield "Ratios", _plots(figures.ratios(results, baseline))
    yield "Throughput", _plots(figures.throughput(results, baseline))
    yield "Cycles a row", _plots(figures.cycles(results)) + sections.kernels(results)
    yield "Latency", _plots(figures.latency(results))
    yield "Skew", _plots(figures.skew(results))
    yield "Cardinality", _plots(figures.over(results, sweeps.CARDINALITY, "distinct keys"))
    yield "Slide", _plots(figures.over(results, sweeps.SLIDE, "slide, seconds"))
    yield "Batch size", _plots(figures.over(results, sweeps.BATCH_ROWS, "rows of a micro-batch"))
    yield "Scaling", _plots(figures.scaling(results))
    yield "RDMA reads", sections.reads(results)
    yield "All figures", sections.runs(results, baseline)
    yield "Machines and commands", sections.provenance(results)


def _plots(plots: Iterable[figures.Plot]) -> str:
    return "\n".join(f"<figure><figcaption>{html.escape(caption)}</figcaption>{svg}</figure>" for caption, svg in plots)


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
