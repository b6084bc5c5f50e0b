"""What a manifest may hold, field by field. Whoever can write a checkpoint can write one whose checksum is right."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from pyslash._native import Plan
from pyslash.errors import SlashError
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import PlanSpec
from pyslash.protocol.bounds import MAX_PLAN_BYTES, Check, integer, is_incarnation, list_of, text, tuple_of
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.files.directory import BlockFile, is_block_file

_INT64 = 1 << 63
_MOST = 1 << 20  # entries of a list
_NO_TEXT = re.compile("[\ud800-\udfff]")
_signed, _unsigned, _crc = integer(-_INT64, _INT64), integer(0, _INT64), integer(0, 1 << 32)


def _words(value: Any) -> bool:
    """Text of any language, which can be written to a file. Schemas, with their comments, are of any length."""
    return type(value) is str and not _NO_TEXT.search(value)


def _flag(value: Any) -> bool:
    return type(value) is bool


def _map_of(key: Check, item: Check) -> Check:
    return lambda value: (
        type(value) is dict and len(value) <= _MOST and all(key(name) and item(one) for name, one in value.items())
    )


def _is_holder(value: Any) -> bool:
    return value == "" or is_incarnation(value)  # nobody's, where plain Spark's state was taken over


def _is_file(value: Any) -> bool:
    checks = {"name": is_block_file, "bytes": _unsigned, "crc": _crc, "last_pane": _signed, "holder": _is_holder}
    if type(value) is not dict or {*value} != {field.name for field in fields(BlockFile)}:
        return False
    return _flag(value["snapshot"]) and all(check(value[name]) for name, check in checks.items())


def _is_agent(value: Any) -> bool:
    try:
        AgentDescriptor.from_record(value)
    except ValueError:
        return False
    return True


_times = list_of(tuple_of(_unsigned, _signed, _signed, lambda value: type(value) in (int, float)), _MOST)

OPTIONAL = frozenset({"owed_times", "row_schemas", "types", "key_order"})
"""Fields that few manifests have; without them, those of the others are as they were before these came."""

_CHECKS: dict[str, Check] = {
    "epoch": integer(0, _INT64 - 1),
    "run": _unsigned,
    "plan": text(MAX_PLAN_BYTES),
    "columns": list_of(_words, _MOST),
    "time": _words,
    "offsets": _words,
    "timestamp_ms": _signed,
    "input": _words,
    "emitted_us": _signed,
    "watermark_us": _signed,
    "rows": _unsigned,
    "late_rows": _unsigned,
    "times": _times,
    "owed_times": _times,
    "row_schemas": list_of(_words, 2),
    "types": list_of(_words, _MOST),
    "key_order": list_of(_unsigned, _MOST),
    "blocks": list_of(tuple_of(is_incarnation, _unsigned, _crc), _MOST),
    "agents": list_of(_is_agent, _MOST),
    "files": list_of(_is_file, _MOST),
    "in_checkpoint": _flag,
    "standbys": _map_of(is_incarnation, is_incarnation),
    "before": _words,
    "pane": _signed,
    "since": list_of(_unsigned, _MOST),
    "is_adopted": _flag,
    "held": lambda value: value is None or _map_of(is_incarnation, tuple_of(_signed, _unsigned))(value),
}


def what_is_wrong(record: Any) -> str:
    """In words; empty if the record has the form of a manifest."""
    if type(record) is not dict:
        return f"it holds {type(record).__name__}, not fields"
    missing, unknown = {*_CHECKS} - {*record} - OPTIONAL, {*record} - {*_CHECKS}
    if missing or unknown:
        return f"its fields lack {sorted(missing)} and have {sorted(unknown)[:9]} besides"
    for name, value in record.items():
        if not _CHECKS[name](value):
            return f"its field {name} has the wrong type or is out of range"
    return _plan_fault(record)


def _plan_fault(record: dict[str, Any]) -> str:
    """What its columns are is looked up by place whenever two queries are compared."""
    try:
        Plan(record["plan"])
        spec = PlanSpec.decode(record["plan"])
        plan = PlanIdentity(spec, tuple(record["columns"]), record["time"], tuple(record["since"]))
        for part in ("window",) if plan.join else ("window", "keys", "aggregates", "session_end"):
            getattr(plan, part)
        if (order := record.get("key_order")) and sorted(order) != [*range(len(spec.keys))]:
            return f"its keys are in the order {order[:9]}"
    except (SlashError, ValueError, IndexError) as error:
        return f"its plan and columns do not fit together: {error}"
    return ""
