"""The fenced blocks of the pages: which language, and the commands of a shell block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#.*$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page (its name in the repository), as it is written."""

    page: str
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """Of a shell block: each command on one line, without its comment."""
        lines = self.text.replace("\\\n", " ").splitlines()
        found = (" ".join(_COMMENT.sub("", line).split()) for line in lines)
        return [line for line in found if line and not line.startswith("#")]


def blocks(*languages: str) -> Iterator[Block]:
    """Every fenced block, or those of some languages, page by page."""
    for page in PAGES:
        for language, text in _FENCE.findall(page.read_text()):
            if not languages or language in languages:
                yield Block(page.relative_to(ROOT).as_posix(), language, text)
