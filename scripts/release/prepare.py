"""Makes a checkout ready for the index: addresses of the repository in its metadata, and whole links in README.md.

    python scripts/release/prepare.py REPOSITORY TAG      (https://HOST/OWNER/NAME v0.1.0)

The repository does not know where it is published; the release does. README.md is the page of the index, where a
relative link leads nowhere. Fails where the tag is not the version of pyproject.toml and of `pyslash.__version__`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

# `[text](path)` and `![alternative text](path)`.
LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")


def urls(repository: str, tag: str) -> str:
    """The table of the addresses."""
    pages = {
        "Homepage": repository,
        "Repository": repository,
        "Documentation": f"{repository}/tree/{tag}/docs",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    return "\n[project.urls]\n" + "".join(f'{name} = "{address}"\n' for name, address in pages.items())


def whole_links(text: str, repository: str, tag: str) -> str:
    """Markdown whose links and pictures begin at the repository's root."""
    kind = {"!": "raw", "": "blob"}
    return LINK.sub(lambda link: f"{link[1]}{link[2]}({repository}/{kind[link[1]]}/{tag}/{link[3]})", text)


def check(root: Path, tag: str) -> None:
    """That this tag is this version.

    Raises:
        SystemExit: it is another one.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    package = re.search(r'^__version__ = "(.+)"$', (root / "pyslash" / "__init__.py").read_text(), re.MULTILINE)
    versions = {project, package[1] if package else ""}
    if versions != {tag.removeprefix("v")} or not tag.startswith("v"):
        raise SystemExit(f"release: the tag is {tag}, but pyproject.toml and pyslash.__version__ say {versions}")


def prepare(root: Path, repository: str, tag: str) -> None:
    """Rewrite pyproject.toml and README.md below `root`."""
    check(root, tag)
    project = root / "pyproject.toml"
    if "[project.urls]" in project.read_text():
        raise SystemExit(f"release: {project} has addresses already; take a fresh checkout")
    project.write_text(project.read_text() + urls(repository, tag))
    readme = root / "README.md"
    readme.write_text(whole_links(readme.read_text(), repository, tag))


if __name__ == "__main__":
    prepare(Path.cwd(), *sys.argv[1:])
