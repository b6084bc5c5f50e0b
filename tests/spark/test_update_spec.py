"""pyslash/spark/update_spec.py: an update job in one argument."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

from pyslash.plan.spec import ANY_WINDOW, AggregateSpec, ColumnSpec, PlanSpec, SessionPlace, SessionSpec
from pyslash.spark.update_spec import AgentSpec, UpdateSpec

SESSIONS = PlanSpec(
    window=ANY_WINDOW,
    columns=(ColumnSpec("int64", True),),
    keys=(1,),
    aggregates=(AggregateSpec("count"),),
    session=SessionSpec(5, False),
)
SPEC = UpdateSpec(
    plan=SESSIONS,
    place=SessionPlace(3, -7),
    watermark_us=-(1 << 63),
    query=bytes(range(16)),
    epoch=4,
    agent=AgentSpec(secret=b"s" * 32, arena_bytes=1 << 40),
    reads_csv=False,
)
JAVA = Path(__file__).resolve().parents[2] / "native" / "jvm" / "java" / "io" / "pyslash"


def test_the_jvm_is_told_all_of_it() -> None:
    told = json.loads(SPEC.to_json())
    assert told.pop("agent") == SPEC.agent.record()
    assert base64.b64decode(told.pop("query")) == SPEC.query
    assert told == {
        "plan": SESSIONS.text + "place 3 -7\n",
        "keeps_timeless": False,
        "watermark_us": -(1 << 63),
        "epoch": 4,
        "reads_json": True,
        "reads_csv": False,
        "reads_avro": True,
        "reads_kafka": True,
    }
    unique = replace(SPEC, plan=replace(SESSIONS, session=None, deduplicates=True), place=None)
    assert json.loads(unique.to_json())["keeps_timeless"]
    moments = replace(unique, plan=replace(unique.plan, deduplicates=False, moments=True))
    assert json.loads(moments.to_json())["keeps_timeless"]


def test_the_secret_is_shown_by_nothing() -> None:
    assert "sss" not in repr(SPEC)
    assert base64.b64decode(SPEC.agent.record()["secret"]) == b"s" * 32


def test_each_field_is_one_that_java_reads() -> None:
    def fields(*path: str) -> set[str]:
        return set(re.findall(r'required\("(\w+)"\)', JAVA.joinpath(*path).read_text()))

    assert fields("ingest", "UpdateSpec.java") == set(json.loads(SPEC.to_json()))
    assert fields("agent", "AgentOrder.java") == set(SPEC.agent.record())
