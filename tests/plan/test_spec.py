"""pyslash/plan/spec.py: a plan and its text."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from pyslash import _native
from pyslash.errors import InvalidPlanError
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import AggregateSpec, ColumnSpec, PlanSpec, SessionPlace, SessionSpec
from pyslash.plan.window import TimeWindow

ROOT = Path(__file__).resolve().parents[2]
SPEC = PlanSpec(
    window=TimeWindow(10_000_000, 4_000_000, 1_000_000),
    columns=(ColumnSpec("int64", True), ColumnSpec("decimal(20,2)", False), ColumnSpec("float64", True)),
    keys=(1, 2),
    aggregates=(
        AggregateSpec("count", ansi=True),
        AggregateSpec("sum", (2,), True, "try"),
        AggregateSpec("corr", (3, 3), False, "nan,unguarded"),
    ),
)
TEXT = """pyslash-plan 1
window 10000000 4000000 1000000
column int64 1
column decimal(20,2) 0
column float64 1
key 1
key 2
aggregate count - 1
aggregate sum 2 1 try
aggregate corr 3,3 0 nan,unguarded
"""


def test_the_text_of_a_plan() -> None:
    assert SPEC.text == TEXT
    assert PlanSpec.decode(TEXT) == SPEC


def _drawn(draw: random.Random) -> PlanSpec:
    """Any plan that operators may have."""
    kind = draw.choice(["aggregation", "deduplication", "join", "sessions"])
    columns = tuple(
        ColumnSpec(draw.choice(["int8", "int64", "string", "decimal(38,0)"]), draw.random() < 0.5)
        for _ in range(draw.randint(1, 5))
    )
    places = range(1, len(columns) + 1)
    return PlanSpec(
        window=TimeWindow(draw.randint(1, 1 << 59), draw.randint(1, 1 << 40), draw.randint(-(1 << 40), 1 << 40)),
        columns=columns,
        keys=tuple(draw.sample(places, draw.randint(0, len(columns)))),
        aggregates=tuple(
            AggregateSpec("f", tuple(draw.choices(places, k=draw.randint(0, 2))), draw.random() < 0.5, parameter)
            for parameter in draw.choices(["", "try", "nan,own"], k=draw.randint(0, 3))
        ),
        row_bits=draw.choice([None, 0, 12]),
        session=SessionSpec(draw.choice([0, 5_000_000]), draw.random() < 0.5) if kind == "sessions" else None,
        deduplicates=kind == "deduplication",
        joins=kind == "join",
    )


def test_what_is_read_is_what_was_written() -> None:
    for seed in range(500):
        spec = _drawn(random.Random(seed))
        assert PlanSpec.decode(spec.text) == spec, seed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plan",
        TEXT.removesuffix("\n"),
        TEXT.replace("pyslash-plan 1", "pyslash-plan 2"),
        TEXT.replace("window 10000000 4000000 1000000\n", ""),
        TEXT.replace("window 10000000", "window 010000000"),
        TEXT.replace("window 10000000", "window 10_000_000"),
        TEXT.replace("key 1", "key  1"),
        TEXT.replace("key 1\n", "key 1\nkept 2\n"),
        TEXT.replace("key 1\nkey 2\n", "") + "key 1\nkey 2\n",
        TEXT.replace("column int64 1", "column int64 2"),
        TEXT.replace("corr 3,3", "corr 3,x"),
        TEXT + "deduplicate\n",
        TEXT + "place 1 2\n",
    ],
)
def test_what_no_plan_is_written_as_is_refused(text: str) -> None:
    with pytest.raises(InvalidPlanError):
        PlanSpec.decode(text)


def test_only_update_tasks_are_told_the_place_of_sessions() -> None:
    sessions = PlanSpec(
        window=TimeWindow(1, 1, 0),
        columns=(ColumnSpec("int64", True),),
        keys=(1,),
        aggregates=(AggregateSpec("count"),),
        session=SessionSpec(5_000_000, False),
    )
    placed = sessions.placed(SessionPlace(7, -3))
    assert placed == sessions.text + "place 7 -3\n"
    assert sessions.placed(None) == sessions.text
    assert _native.Plan(placed).text == sessions.text
    assert _native.Plan(placed).fingerprint == _native.Plan(sessions.text).fingerprint


def test_rows_instead_of_aggregates() -> None:
    rows = SPEC.of_rows(3)
    assert rows.text == TEXT[: TEXT.index("aggregate")] + "rows 3\n"
    assert (_native.Plan(rows.text).row_bits, _native.Plan(SPEC.text).row_bits) == (3, None)


def test_what_fingerprints_are_made_of_stays() -> None:
    """Manifests have digests of it."""
    identity = PlanIdentity(PlanSpec.decode("pyslash-plan 1\nwindow 1 1 0\nkey 1\n"), ("it's k",), "ts", (0, 2), True)
    assert identity.fingerprinted == (
        "PlanIdentity(text='pyslash-plan 1\\nwindow 1 1 0\\nkey 1\\n', columns=(\"it's k\",), time='ts')"
    )


def test_nobody_else_writes_or_reads_the_text_of_a_plan() -> None:
    sources = [path for folder in ("pyslash", "eval") for path in (ROOT / folder).rglob("*.py")]
    sources += (ROOT / "native" / "jvm" / "java").rglob("*.java")
    writes = [path for path in sources if "pyslash-plan" in path.read_text()]
    assert [path.name for path in writes] == ["spec.py"]
    # A method of the text, a part of it, more behind it, or something looked for in it.
    takes_apart = re.compile(
        r"(?:\bplan_?[tT]ext|[\w)]\.text|\b_plan|\b_aggregation)(?:\.split\w*\(|\.contains\(|\[| \+ )"
        r"|\bin (?:\w+\.)*plan[._]text\b"
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if takes_apart.search(line)
    ]
    assert found == []
