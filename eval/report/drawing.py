"""matplotlib as inline SVG that follows the page: text and lines take the page's colour, nothing has a background."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Stands for the page's own colour of text; no line of data has it.
_INK = "#010203"
# Mid-tones, legible on white and on near-black alike; one family of colours for each engine's kin.
COLOURS = {
    "slash": "#2f7ed8",
    "slash-files": "#4aa3f0",
    "slash-rows": "#1aa6b7",
    "slash-repartition": "#a05ad5",
    "spark-rocksdb": "#e0632f",
    "spark-rocksdb-default": "#b5462a",
    "spark-hdfs": "#d9972b",
    "flink": "#d64585",
    "duckdb": "#7f8c3a",
    "polars": "#4d9d54",
    "noop": "#8a8f98",
}
_OTHERS = ("#c0504d", "#5f9ea0", "#b07aa1", "#9c755f", "#76b7b2", "#e15759")
_FONT = "var(--font, sans-serif)"
_WIDTH = 8.6

_numbers = count()


def colour(engine: str) -> str:
    """The same engine has the same colour in every plot."""
    return COLOURS.get(engine) or _OTHERS[sum(engine.encode()) % len(_OTHERS)]


def plain_ticks(axes: Axes, which: str) -> None:
    """Logarithmic axes (of `x` and `y`) with ticks at 1, 2 and 5, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name in which:
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        axis.set_minor_formatter(NullFormatter())


def number(value: float) -> str:
    """Of an axis.

    >>> number(0.25), number(1000000)
    ('0.25', '1,000,000')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def draw(height: float, paint: Callable[[Axes], None]) -> str:
    """SVG of one plot: `paint` is given its axes. `height` is in inches, the page scales it to its width."""
    return draw_all(height, [paint])


def draw_all(height: float, paints: Iterable[Callable[[Axes], None]]) -> str:
    """SVG of plots side by side, to stand in a page."""
    with _figure(height, list(paints), _INK) as figure:
        return _svg(figure)


def save_all(path: Path, height: float, paints: Iterable[Callable[[Axes], None]], columns: int) -> None:
    """A file of plots, `columns` in a row, black on white: to be shown anywhere."""
    with _figure(height, list(paints), "#222222", columns) as figure:
        figure.savefig(path, metadata={"Date": None, "Creator": None} if path.suffix == ".svg" else None)


@contextmanager
def _figure(
    height: float, paints: list[Callable[[Axes], None]], ink: str, columns: int | None = None
) -> Iterator[Figure]:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    style: dict[str, Any] = {
        "svg.fonttype": "none",
        # Ids within the SVGs of one page must not meet.
        "svg.hashsalt": f"pyslash-{next(_numbers)}",
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.18,
        "grid.linewidth": 0.7,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        **dict.fromkeys(
            (
                "text.color",
                "hatch.color",
                "axes.edgecolor",
                "axes.labelcolor",
                "xtick.color",
                "ytick.color",
                "grid.color",
            ),
            ink,
        ),
    }
    columns = columns or len(paints)
    with mpl.rc_context(style):
        figure, axes = plt.subplots(
            -(-len(paints) // columns), columns, figsize=(_WIDTH, height), squeeze=False, layout="constrained"
        )
        for paint, each in zip(paints, axes.flat, strict=True):
            paint(each)
        yield figure
        plt.close(figure)


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor").replace("xlink:href", "href")
    # The page's own font; matplotlib before 3.11 writes size and family in one.
    text = re.sub(r"font-family: [^;\"]*", f"font-family: {_FONT}", text)
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", rf"font: \1 {_FONT}", text)
    # Groups are numbered anew in every figure, and a page may have an id only once; nothing refers to them.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', text, count=1)
