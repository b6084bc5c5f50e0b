"""Check the links of a built site: `python scripts/docs/check_links.py build/site`.

Every internal link leads to a file of the site, and its fragment to an element there; an external one is an address
that a browser accepts (nothing is fetched). Prints each finding, and exits with 1 if there is one.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Links and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


def findings(site: Path) -> list[str]:
    """One line for each link that leads nowhere, `page: link: reason`; [] if all are sound."""
    pages = {path: _Page(path.read_text()) for path in sorted(site.resolve().rglob("*.html"))}
    if not pages:
        return [f"{site}: no page"]
    return [
        f"{path.relative_to(site.resolve())}: {link}: {reason}"
        for path, page in pages.items()
        if path.name != "404.html"  # its links are relative to wherever it is shown
        for link in dict.fromkeys(page.links)
        if (reason := _broken(link, path, pages, site.resolve()))
    ]


def _broken(link: str, page: Path, pages: dict[Path, _Page], site: Path) -> str | None:
    try:
        parts = urlsplit(link)
    except ValueError as error:
        return str(error)
    if parts.scheme or parts.netloc:
        if parts.scheme in ("data", "mailto"):
            return None
        is_address = parts.scheme in ("http", "https") and "." in parts.netloc and " " not in link
        return None if is_address else "not an address"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site) or not target.is_file():
        return "no such file"
    fragment = unquote(parts.fragment)
    if fragment and target in pages and fragment not in pages[target].ids:
        return "no such anchor"
    return None


def main() -> int:
    """0 if every link is sound."""
    found = findings(Path(sys.argv[1]))
    for line in found:
        print(f"links: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
