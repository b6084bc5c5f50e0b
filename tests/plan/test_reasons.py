"""The table of reasons is held against the sources that raise them, and docs/fallbacks.md against the table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pyslash.plan.reasons import REASONS, Reason, Uncovered, fallback_of, page

ROOT = Path(__file__).resolve().parents[2]
JAVA = ROOT / "native" / "jvm" / "java" / "io" / "pyslash"
# Here `OnlySpark` tells why native code does not read files or records: the query runs on pyslash all the same.
OF_INGEST = {
    *("FileScan", "FilterText", "NativeInput", "ScanPath", "StaticJoin"),
    *("CsvSchema", "AvroSchema", "JsonSchema", "LineRecords", "LineScanExec", "RecordSchema"),
}
# `understood` passes on what the JVM has said, in the JVM's words.
PASSED_ON = "pyslash/plan/catalyst.py", "{}"
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def of_python() -> set[tuple[str, str]]:
    """The words of each `Uncovered(...)`, `{}` for what is filled in, and their file."""
    found = set()
    for path in (ROOT / "pyslash").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Uncovered":
                parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else node.args
                words = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
                found.add((str(path.relative_to(ROOT)), words))
    return found


def argument(text: str, begin: int) -> str:
    """What stands between the parenthesis before `begin` and the one that closes it."""
    depth, end = 1, begin
    while depth:
        string = STRING.match(text, end)
        if string:
            end = string.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[begin : end - 1]


def of_java() -> set[str]:
    """The words of each `new OnlySpark(...)` that leaves a query to plain Spark; of `a ? "b" : "c"` both."""
    found = set()
    for path in JAVA.rglob("*.java"):
        text = path.read_text()
        for match in re.finditer(r"new (?:FileScan\.)?OnlySpark\(", text):
            if path.stem in OF_INGEST:
                continue
            words = argument(text, match.end())
            if "?" in STRING.sub("", words):
                found |= set(STRING.findall(words))
            else:
                parts = [part.strip() for part in re.split(r'("(?:[^"\\]|\\.)*")', words)]
                found.add("".join(part[1:-1] if part.startswith('"') else "{}" for part in parts if part.strip("+ \n")))
    return found


def test_every_reason_that_is_raised_is_in_the_table_and_no_other() -> None:
    python, java = of_python(), of_java()
    assert PASSED_ON in python
    assert len(java) > 20
    raised = {words for _, words in python - {PASSED_ON}} | java
    listed = {reason.words for reason in REASONS}
    assert raised - listed == set(), "give these a line, with what would help, in pyslash/plan/reasons.py"
    assert listed - raised == set(), "nobody raises these any longer"


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.words[:60])
def test_a_reason_is_recognised_by_its_words(reason: Reason) -> None:
    fallback = fallback_of(Uncovered(reason.words.replace("{}", "sum(v)\n+ 1")))
    assert fallback.help == reason.help


def test_the_operator_of_the_plan_is_told_where_it_is_known() -> None:
    error = Uncovered("DISTINCT in count(DISTINCT v) is not covered yet")
    assert fallback_of(error).operator == "aggregate function"
    error.operator = "StateStoreSave"
    fallback = fallback_of(error)
    assert str(fallback) == (
        "DISTINCT in count(DISTINCT v) is not covered yet (operator: StateStoreSave). What would help: "
        "approx_count_distinct, or dropDuplicates before the aggregation"
    )


def test_an_error_of_the_first_epoch_is_a_reason_too() -> None:
    fallback = fallback_of(RuntimeError("no agent"))
    assert fallback.reason == "the first epoch failed, and nothing had been kept yet: no agent"
    assert fallback.has_state


def test_a_query_without_state_is_no_loss() -> None:
    assert not fallback_of(Uncovered("it has no stateful operator: there is no state to keep")).has_state


def test_the_page_is_that_of_the_table() -> None:
    assert (ROOT / "docs" / "fallbacks.md").read_text() == page(), "pyslash coverage --reasons > docs/fallbacks.md"
