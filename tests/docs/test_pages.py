"""The pages have what the code has: every error, every warning, every part of the tree."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from pyslash import errors
from pyslash.epoch_progress import EpochProgress

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TROUBLESHOOTING = (DOCS / "troubleshooting.md").read_text()
# In the driver; an agent's warnings are in its own log.
WARNING_PACKAGES = ("driver", "operators", "migrate", "emit", "ingest", "cluster", "spark", "state", "plan")
PLACEHOLDER = re.compile(r"%[sd]")
# What an f-string leaves where its `f` is missing: `{name}`, `{name.field}`, `{name['key']}`.
UNFILLED = re.compile(r"\{[a-z_]+(?:\.\w+|\[.*?\]|\(.*?\))*(?::[.,\w]+)?\}")


def raised() -> list[str]:
    """Names of the errors that are more than a base class."""
    found = [name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.SlashError)]
    return [name for name in found if name != "SlashError"]


@pytest.mark.parametrize("name", raised())
def test_every_error_has_an_entry(name: str) -> None:
    assert re.search(rf"^### {name}$", TROUBLESHOOTING, re.MULTILINE)


def test_every_entry_of_an_error_is_of_one_that_exists() -> None:
    assert set(re.findall(r"^### (\w+Error)$", TROUBLESHOOTING, re.MULTILINE)) == set(raised())


def warnings() -> Iterator[str]:
    """The texts of `logger.warning` in the driver's packages, with their placeholders."""
    for package in WARNING_PACKAGES:
        for path in sorted((ROOT / "pyslash" / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("logger.warning", "log.warning")):
                    text = node.args[0]
                    if isinstance(text, ast.Constant):
                        yield str(text.value)


def test_every_warning_has_an_entry() -> None:
    found = list(warnings())
    assert len(found) > 10
    entries = re.findall(r"^\| `([^`]+)` \|", TROUBLESHOOTING, re.MULTILINE)
    assert [text for text in found if PLACEHOLDER.sub("...", text) not in entries] == []


def said() -> str:
    """All texts of the code, Python's, Java's and C++'s, each piece of a literal on a line of its own."""
    found: list[str] = []
    for path in sorted((ROOT / "pyslash").rglob("*.py")):
        found += [
            piece
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            for piece in PLACEHOLDER.split(node.value)
        ]
    for path in (path for kind in ("java", "cpp", "h") for path in (ROOT / "native").rglob(f"*.{kind}")):
        joined = re.sub(r'"\s*\+?\s*"', "", path.read_text())  # literals that are only divided over lines
        found += re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)
    return "\n".join(found)


# What Python, pip, Spark and the kernel say.
OTHERS_SAY = ("ModuleNotFoundError", "ImportError", "Unknown option", "No such file or directory", "Cannot run program")


def test_every_message_that_is_quoted_is_said() -> None:
    rows = re.findall(r"^\| (`.+?) \|(?= )", TROUBLESHOOTING, re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    pieces = [
        piece.strip(" :,;")
        for text in quoted
        if not any(map(text.count, OTHERS_SAY))
        for piece in re.split(r"\.{3}|spark\.[\w.]+", text)
    ]
    sentences = [piece for piece in pieces if " " in piece]
    texts = said()
    assert len(sentences) > 80
    assert [piece for piece in sentences if piece not in texts] == []


def test_every_file_that_is_named_exists() -> None:
    file = re.compile(r"\b(?:pyslash|native|eval|tests|scripts|examples|spark-conf)/[\w./-]+\.(?:py|java|cpp|h|sh)\b")
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    named = [(page.name, name) for page in pages for name in file.findall(page.read_text())]
    assert len(named) > 100
    assert [one for one in named if not (ROOT / one[1]).exists()] == []


def test_the_figures_that_are_named_are_those_of_an_epoch() -> None:
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", (DOCS / "tuning.md").read_text(), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(named) > 10
    assert named <= {field.name for field in fields(EpochProgress)}


def test_every_phase_of_an_epoch_has_its_words() -> None:
    """Each millisecond figure of `pyslash.progress` stands in the docs, so that none is read as another."""
    times = {field.name for field in fields(EpochProgress) if field.name.endswith("_ms")}
    text = "".join(path.read_text() for path in DOCS.glob("*.md"))
    assert {name for name in times if f"`{name}`" not in text} == set()


def test_no_page_has_a_figure_that_was_not_filled_in() -> None:
    assert UNFILLED.search("Linux {machine['kernel']} |")
    pages = [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.*") if path.suffix in (".md", ".svg"))]
    assert {page: found for page in pages if (found := UNFILLED.findall(page.read_text()))} == {}


def test_the_map_is_the_tree() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = {f"pyslash/{name.split('/')[1]}/" for name in tracked if re.match(r"pyslash/\w+/.", name)}
    modules = {name for name in tracked if re.fullmatch(r"pyslash/[a-z]\w*\.py", name)}
    others = {f"{name.split('/')[0]}/" for name in tracked if re.match(r"\w[^/]*/", name)} - {"pyslash/"}
    named = {
        path for cell in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE) for path in re.findall(r"`(.+?)`", cell)
    }
    missing = [path for path in sorted(folders | modules | others) if not any(each.startswith(path) for each in named)]
    assert missing == [], "CONTRIBUTING.md's map lacks them"
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == [], "they do not exist"


def test_the_index_of_decisions_has_each_page_once_with_its_state() -> None:
    folder = ROOT / "docs" / "design"
    lines = re.findall(
        r"^\| \[(\d{3})\]\((\S+)\) \| (.+) \| (.+) \|$", (folder / "README.md").read_text(), re.MULTILINE
    )
    titles = {}
    for page in folder.glob("[0-9]*.md"):
        number, _, title = page.read_text().splitlines()[0].removeprefix("# ").partition(": ")
        titles[number, page.name] = title[0].upper() + title[1:]
    assert len(lines) == len(titles)
    assert {(number, name): title for number, name, title, _ in lines} == titles
    for _, name, _, state in lines:
        assert re.fullmatch(r"in force|replaced by \[\d{3}\]\(\S+\)", state), name


def test_no_command_needs_a_path_that_its_own_words_do_not_have_yet() -> None:
    """`PATH=... spark-submit --jars "$(pyslash jar)"`: the shell expands the words first."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [page.name for page in pages if re.search(r"(?<!export )\bPATH=\S+ +spark-submit", page.read_text())] == []
