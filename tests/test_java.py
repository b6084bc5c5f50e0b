"""The JVM face's packages: what each may know of the others, that none is a heap, and that one alone reflects."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "native" / "jvm" / "java" / "io" / "pyslash"
_MOST_CLASSES = 25
_MOST_ARGUMENTS = 7
_IMPORT = re.compile(r"^import (?:static )?io\.pyslash\.(\w+)", re.MULTILINE)
# By which Java finds a member by its name, and names of Spark's classes as text.
_REFLECTS = re.compile(
    r"java\.lang\.reflect|\bClass\.forName|\.get(?:Declared)?(?:Field|Method|Constructor)s?\(|\.getSimpleName\(\)"
    r"|\(\(Product\)|\"org\.apache\.spark\.\w"
)
# `Bridge.names` gives the classes of operators to Python.
_NAMES_OPERATORS = "operators.stream().map(one -> one.getClass().getSimpleName())"
_AVROS = re.compile(r"\b(?:record|avro)\.getFields\(\)")  # the fields of a record, by Avro's own class
# From below up; `Bridge`, the door for Python, and `SlashPlugin`, which Spark makes, stand above them all.
KNOWS = {
    "backlog": {"core", "shim", "catalyst"},
    "core": set(),
    "logs": set(),  # a jar of its own, of classes that Spark makes by their names
    "shim": {"core"},
    "ui": {"shim"},
    "catalyst": {"core", "shim"},
    "agent": {"core"},
    "records": {"core", "shim", "catalyst"},
    "kafka": {"backlog", "core", "shim", "records"},
    "ingest": {"core", "shim", "catalyst", "agent", "records", "kafka"},
    "merge": {"core", "shim", "catalyst", "agent"},
    "join": {"core", "shim", "catalyst", "merge"},
    "transform": {"core", "shim", "catalyst", "merge"},
    "sink": {"core", "shim"},
    "migrate": {"catalyst"},
    "plugin": {"core", "shim", "sink", "ui"},
    "connect": {"plugin"},
}


def test_every_package_imports_only_what_it_may_know() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)} imports {other}"
        for package, known in KNOWS.items()
        for path in (SOURCES / package).rglob("*.java")
        for other in _IMPORT.findall(path.read_text())
        if other not in known | {package}
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
    assert sorted(path.stem for path in SOURCES.glob("*.java")) == ["Bridge", "SlashPlugin"]


def test_one_package_alone_takes_members_by_name() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in SOURCES.rglob("*.java")
        if path.parent.name != "shim"
        for line in path.read_text().splitlines()
        if _REFLECTS.search(_AVROS.sub("", line)) and _NAMES_OPERATORS not in line
    ]
    assert wrong == []


def test_python_calls_nothing_with_many_arguments() -> None:
    methods = re.findall(r"^  public [^;={]*?(\w+)\(([^)]*)\)", (SOURCES / "Bridge.java").read_text(), re.MULTILINE)
    assert len(methods) > 20
    assert [name for name, arguments in methods if arguments.count(",") >= _MOST_ARGUMENTS] == []


def test_every_class_of_the_shim_is_checked_at_start() -> None:
    shim = SOURCES / "shim"
    listed = set(re.findall(r"(\w+)\.class", (shim / "SparkShim.java").read_text()))
    # The connector and Avro are there only where an application has them, and Spark's operators of a user's state are
    # looked up where one is; where log files have no place, they are Spark's; the others have no names of their own.
    where_used = {"AvroFunction", "KafkaConnector", "TransformNode", "GroupStateNode", "LogFiles"}
    unlisted = {"ChangesNoPlan", "DriverAnswers", "Member", "SparkShim", *where_used}
    assert listed == {path.stem for path in shim.glob("*.java")} - unlisted
