"""MkDocs hook: the site shows the repository's own files, so that nothing is written twice.

README.md is the home page, CONTRIBUTING.md and CHANGELOG.md are pages, and a file outside of docs/ that a page links to
(an example, a properties file) is copied to `source/` beside the pages. Their links are checked like all others.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(\]\()([^)#\s]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace `FOLDER/*` in the navigation by that folder's pages, in the order of their names."""
    config.nav = [_expanded(entry, Path(config.docs_dir)) for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the repository's pages, and what any page links to outside of docs/."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=_moved((ROOT / name).read_text(), name)))
    pages = [*Path(config.docs_dir).rglob("*.md"), *(ROOT / name for name in PAGES)]
    for target in sorted({target for page in pages for target in _sources(page)}):
        files.append(File.generated(config, f"source/{target}", abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links that leave docs/ to where the site has their files."""
    if page.file.src_uri in PAGES.values():
        return markdown  # moved already
    return _moved(markdown, f"docs/{page.file.src_uri}")


def _expanded(entry: Any, docs: Path) -> Any:
    (title, value), *_ = entry.items() if isinstance(entry, dict) else [(None, entry)]
    if isinstance(value, str) and value.endswith("/*"):
        return {title: [path.relative_to(docs).as_posix() for path in sorted((docs / value[:-2]).glob("*.md"))]}
    return entry


def _targets(text: str, page: str) -> list[tuple[str, str]]:
    """Each relative link of a page of the repository, as written, and the path in the repository that it names."""
    links = [match[2] for match in _LINK.finditer(text) if "://" not in match[2]]
    return [(link, posixpath.normpath(posixpath.join(posixpath.dirname(page), link))) for link in links]


def _sources(page: Path) -> set[str]:
    """Files outside of docs/, and no pages of the site, that a page links to."""
    found = {path for _, path in _targets(page.read_text(), page.relative_to(ROOT).as_posix())}
    return {path for path in found if not path.startswith("docs/") and path not in PAGES and (ROOT / path).is_file()}


def _moved(text: str, page: str) -> str:
    """A page's text with its links as they are on the site."""
    here = posixpath.dirname(page.removeprefix("docs/")) if page.startswith("docs/") else ""
    places = {}
    for link, path in _targets(text, page):
        on_site = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}")
        places[link] = posixpath.relpath(on_site, here or ".")
    return _LINK.sub(lambda match: match[1] + places.get(match[2], match[2]), text)
