"""requirements/*.txt hold what pyproject.toml asks for, with hashes; the workflows' actions are pinned by SHA."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = {
    "development.txt": ("build", "test", "eval", "lint"),
    "backend.txt": ("backend",),
    "docs.txt": ("docs",),
    "wheels.txt": ("wheels",),
}


def locked(file: str) -> dict[str, list[tuple[str, int]]]:
    """The versions of each package (several: for several Pythons) and how many hashes each has."""
    found: dict[str, list[tuple[str, int]]] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / "requirements" / file).read_text().strip()):
        name, _, rest = entry.partition("==")
        version = re.split(r"[ ;\\]", rest, maxsplit=1)[0]
        found.setdefault(canonicalize_name(name.partition("[")[0]), []).append((version, entry.count("--hash=sha256:")))
    return found


@pytest.mark.parametrize("file", GROUPS)
def test_every_requirement_is_locked_within_its_range(file: str) -> None:
    found = locked(file)
    assert all(hashes for versions in found.values() for _, hashes in versions)
    wanted = [text for group in GROUPS[file] for text in PROJECT["dependency-groups"][group] if isinstance(text, str)]
    if file == "development.txt":
        wanted += PROJECT["project"]["dependencies"]
    for text in wanted:
        requirement = Requirement(text)
        versions = found.get(canonicalize_name(requirement.name), [])
        assert versions, f"{text} is not in requirements/{file}: make lock"
        assert all(version in requirement.specifier for version, _ in versions), f"{text}: {versions}: make lock"


def test_every_group_is_locked() -> None:
    assert set(PROJECT["dependency-groups"]) == {group for groups in GROUPS.values() for group in groups}


def test_workflows_name_actions_by_sha() -> None:
    files = list((ROOT / ".github" / "workflows").glob("*.yml"))
    uses = [line.strip() for file in files for line in file.read_text().splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not re.fullmatch(r"- uses: [\w./-]+@[0-9a-f]{40} # v[\d.]+", line)] == []
