"""Imports run one way: what each part of pyslash may know of the others, and no circle of modules or of folders.

Every import counts, those inside of functions and for types alone included.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pyslash"
# What stands in the package itself (errors, conf, file systems, units) is everybody's.
KNOWS: dict[str, set[str]] = {
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
    "migrate": {"operators", "spark", "agent", "state", "plan"},
    "driver": {"operators", "emit", "ingest", "cluster", "migrate", "spark", "agent", "protocol", "state", "plan"},
    "inspect": {"driver", "migrate", "spark", "state", "plan", "rdma"},
    "side_car": {"inspect", "driver", "spark"},
    "api": {"inspect", "driver", "operators", "ingest", "spark", "state", "plan"},
    "demo": {"spark"},
}
MOST_MODULES = 15
MOST_LINES = 250
EVERYBODYS = {path.stem for path in PACKAGE.glob("*.py")} | {"_native"}
Graph = Mapping[str, set[str]]


def modules_of(package: Path) -> dict[str, Path]:
    """The modules of a package, by name."""
    places = {path: path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py")}
    return {".".join(place.parts).removesuffix(".__init__"): path for path, place in places.items()}


def imports_of(package: Path) -> Graph:
    """For each module of a package, the modules of it that it imports by name."""
    modules = modules_of(package)

    def imported(node: ast.AST) -> list[list[str]]:
        if isinstance(node, ast.ImportFrom):
            return [[f"{node.module}.{name.name}", str(node.module)] for name in node.names]
        return [[name.name] for name in node.names] if isinstance(node, ast.Import) else []

    return {
        module: {
            next(name for name in names if name in modules)
            for node in ast.walk(ast.parse(path.read_text()))
            for names in imported(node)
            if any(name in modules for name in names)
        }
        - {module}
        for module, path in modules.items()
    }


def circle(graph: Graph) -> list[str]:
    """Nodes that reach themselves, in order; empty if there are none."""
    done: set[str] = set()

    def search(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for far in sorted(graph.get(node, ())):
            if found := search(far, [*way, node]):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := search(node, []))), [])


def children(graph: Graph, folder: str) -> dict[str, set[str]]:
    """What the modules and folders right below a folder import of each other."""

    def child(module: str) -> str:
        return module.removeprefix(f"{folder}.").split(".")[0]

    found: dict[str, set[str]] = {}
    for module, others in graph.items():
        if module.startswith(f"{folder}."):
            near = {child(other) for other in others if other.startswith(f"{folder}.")}
            found.setdefault(child(module), set()).update(near - {child(module)})
    return found


@pytest.mark.parametrize("package", ["pyslash", "eval"])
def test_no_module_imports_itself_by_way_of_others(package: str) -> None:
    assert circle(imports_of(ROOT / package)) == []


@pytest.mark.parametrize("package", ["pyslash", "eval"])
def test_folders_and_the_modules_beside_them_know_each_other_one_way(package: str) -> None:
    graph = imports_of(ROOT / package)
    folders = {module.rsplit(".", 1)[0] for module in graph if "." in module}
    found = {folder: way for folder in sorted(folders) if (way := circle(children(graph, folder)))}
    assert found == {}


def test_circles_are_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert children({"p.a.x": {"p.b"}, "p.b": {"p.a.y"}, "p": {"p.b"}}, "p") == {"a": {"b"}, "b": {"a"}}


def test_every_part_imports_only_what_it_may_know() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in imports_of(PACKAGE).items()
        for other in others
        if (part := module.split(".")[1:2]) and (far := other.split(".")[1:2])
        if part[0] in KNOWS and far != part and far[0] not in KNOWS[part[0]] and far[0] not in EVERYBODYS
    ]
    assert wrong == []


def test_every_part_is_listed() -> None:
    parts = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert parts == set(KNOWS)


def test_nobody_is_known_by_whom_it_knows() -> None:
    assert circle(KNOWS) == []


def test_no_folder_is_a_heap_and_no_class_a_program() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    heaps = {folder: len(list(folder.glob("*.py"))) - 1 for folder in folders}
    assert {folder: count for folder, count in heaps.items() if count > MOST_MODULES} == {}
    classes = {
        f"{path.relative_to(ROOT)}: {node.name}": int(node.end_lineno or 0) - node.lineno + 1
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    assert {name: lines for name, lines in classes.items() if lines > MOST_LINES} == {}
