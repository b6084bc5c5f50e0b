"""Reading the tables of a page."""

from __future__ import annotations

from html.parser import HTMLParser


class _Tables(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] | None = None
        self._is_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._rows = self.tables.setdefault(dict(attrs).get("id") or "", [])
        elif self._rows is not None and tag == "tr":
            self._rows.append([])
        elif self._rows is not None and tag in ("th", "td"):
            self._is_cell = True
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._rows = None
        elif tag in ("th", "td"):
            self._is_cell = False

    def handle_data(self, data: str) -> None:
        if self._is_cell and self._rows is not None:
            self._rows[-1][-1] += data


def table(html: str, name: str) -> list[dict[str, str]]:
    """The rows of the table of this id, by its headers."""
    found = _Tables()
    found.feed(html)
    headers, *rows = found.tables[name]
    return [dict(zip(headers, row, strict=True)) for row in rows]


def number(cell: str) -> int:
    """A count as pages write it."""
    return int(cell.replace(",", ""))
