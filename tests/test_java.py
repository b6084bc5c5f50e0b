"""The JVM face's packages: what each may know of the others, and that none is a heap."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "native" / "jvm" / "java" / "io" / "pyslash"
_MOST_CLASSES = 25
_IMPORT = re.compile(r"^import (?:static )?io\.pyslash\.(\w+)", re.MULTILINE)
# From below up; `Bridge`, the door for Python, stands above them all.
KNOWS = {
    "core": set(),
    "shim": set(),
    "ui": set(),
    "catalyst": {"core", "shim"},
    "agent": {"core"},
    "records": {"core", "catalyst"},
    "kafka": {"records"},
    "ingest": {"core", "shim", "catalyst", "agent", "records", "kafka"},
    "merge": {"core", "catalyst", "agent"},
    "join": {"core", "catalyst", "merge"},
    "sink": {"core", "shim"},
    "migrate": {"catalyst"},
}


def test_every_package_imports_only_what_it_may_know() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)} imports {other}"
        for package, known in KNOWS.items()
        for path in (SOURCES / package).rglob("*.java")
        for other in _IMPORT.findall(path.read_text())
        if other not in known
    ]
    assert wrong == []


def test_every_package_is_listed() -> None:
    assert {path.name for path in SOURCES.iterdir() if path.is_dir()} == set(KNOWS)


def test_no_package_is_known_by_what_it_knows() -> None:
    def reached(package: str) -> set[str]:
        return KNOWS[package] | {far for near in KNOWS[package] for far in reached(near)}

    assert not [package for package in KNOWS if package in reached(package)]


def test_no_package_is_a_heap() -> None:
    sizes = {package: len(list((SOURCES / package).glob("*.java"))) for package in KNOWS}
    assert {package: size for package, size in sizes.items() if size > _MOST_CLASSES} == {}
    assert [path.stem for path in SOURCES.glob("*.java")] == ["Bridge"]
