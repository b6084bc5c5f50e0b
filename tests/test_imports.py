"""Imports run one way: what each part of the package may know of the others, and of no more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "pyslash"
# What stands in the package itself (errors, conf, file systems, block heads) is everybody's.
KNOWS = {
    "rdma": set(),
    "plan": set(),
    "protocol": {"rdma"},
    "state": {"plan", "protocol", "rdma"},
    "transport": {"protocol", "rdma", "state"},
    "agent": {"transport", "protocol", "rdma", "state"},
    "spark": {"plan", "protocol", "state"},
    "cluster": {"spark", "agent", "protocol", "state", "plan"},
    "ingest": {"cluster", "spark", "agent", "protocol", "state", "plan"},
    "emit": {"ingest", "cluster", "spark", "transport", "protocol", "state", "plan"},
    "operators": {"emit", "ingest", "cluster", "spark", "protocol", "state", "plan"},
    "migrate": {"spark", "agent", "state", "plan"},
    "driver": {"operators", "emit", "ingest", "cluster", "migrate", "spark", "agent", "protocol", "state", "plan"},
    "inspect": {"driver", "migrate", "spark", "state", "plan", "rdma"},
    "api": set(),
    "demo": set(),
}
EVERYBODYS = {path.stem for path in PACKAGE.glob("*.py")} | {"_native"}


def imports(path: Path) -> Iterator[str]:
    """The parts of the package that a file imports, those inside of functions and for types alone included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pyslash":
            parts = node.module.split(".")[1:]
            yield from parts[:1] or [name.name for name in node.names]
        elif isinstance(node, ast.Import):
            yield from (name.name.split(".")[1] for name in node.names if name.name.startswith("pyslash."))


def test_every_part_imports_only_what_it_may_know() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE.parent)} imports {other}"
        for part, known in KNOWS.items()
        for path in (PACKAGE / part).rglob("*.py")
        for other in imports(path)
        if other != part and other not in known and other not in EVERYBODYS
    ]
    assert wrong == []


def test_every_part_is_listed() -> None:
    parts = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert parts == set(KNOWS)


def test_nobody_is_known_by_whom_it_knows() -> None:
    def reached(part: str) -> set[str]:
        return KNOWS[part] | {far for near in KNOWS[part] for far in reached(near)}

    assert not [part for part in KNOWS if part in reached(part)]
