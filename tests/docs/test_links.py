"""The check of the docs site's links finds what `make docs` must not let pass."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "docs" / "check_links.py"
spec = importlib.util.spec_from_file_location("check_links", SCRIPT)
assert spec is not None
assert spec.loader is not None
check_links = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_links)


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("other.html", None),
        ("other.html#there", None),
        ("#here", None),
        ("../index.html", None),
        ("https://spark.apache.org/docs/", None),
        ("gone.html", "no such file"),
        ("other.html#gone", "no such anchor"),
        ("#gone", "no such anchor"),
        ("../../outside.html", "no such file"),
        ("https://nowhere", "not an address"),
        ("ftp://spark.apache.org/", "not an address"),
        ("http://[", "Invalid IPv6 URL"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, link: str, reason: str | None) -> None:
    site = tmp_path / "site"
    (site / "folder").mkdir(parents=True)
    (tmp_path / "outside.html").write_text("")
    (site / "index.html").write_text("<p>home</p>")
    (site / "folder" / "other.html").write_text('<p id="there">text</p>')
    (site / "folder" / "page.html").write_text(f'<h2 id="here">text</h2><a href="{link}">link</a>')
    assert check_links.findings(site) == ([f"folder/page.html: {link}: {reason}"] if reason else [])


def test_a_missing_picture_and_an_empty_site_are_found(tmp_path: Path) -> None:
    assert check_links.findings(tmp_path) == [f"{tmp_path}: no page"]
    (tmp_path / "index.html").write_text('<img src="gone.svg">')
    assert check_links.findings(tmp_path) == ["index.html: gone.svg: no such file"]


ROOT = SCRIPT.parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub and MkDocs both make them."""
    words = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in HEADING.findall(page.read_text()))
    return {re.sub(r"\s+", "-", each) for each in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_of_the_repository(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link
