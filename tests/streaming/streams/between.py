"""Draws what stands between a stream's source and its operator."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from tests.streaming.streams.case import TABLES, Step

_PROJECTIONS = {
    "ts": "ts + INTERVAL '2' SECOND",
    "int": "{} % 1000",
    "long": "{} % 1000",
    "string": "concat({}, '')",
    "boolean": "NOT {}",
    "double": "{} * 2",
    "small": "coalesce({}, 1.50BD)",
}
_FILTERS_OF_KEYS = ("{} IS NOT NULL", "{} IS NOT NULL", "hash({}) % 3 <> 0")
_FILTERS_OF_TIMES = (
    "second(ts) % 2 = 0",
    "ts IS NOT NULL",
    "ts >= TIMESTAMP'1970-01-01 00:00:00Z'",
    "unix_micros(ts) % 3 <> 1",
)
_OF_NOW = (
    "ts < current_timestamp()",
    "unix_micros(current_timestamp()) - unix_micros(ts) > 0",
    "current_timestamp() > TIMESTAMP'2001-01-01' OR k_int = 5",
)
_METRICS = ("count(*)", "count(ts)", "min(ts)", "max(ts)", "sum(length(k_string))", "max(k_int)", "count_if(v_int > 0)")
_METRICS_ABOVE = ("count(*)", "count({})", "max(hash({}))")


@dataclass(frozen=True)
class Between:
    """Steps below and above the watermark, and above the operator; how many streams there are on the left side.

    `has_table`: a static table's columns are there. `keeps_order`: of the rows that one task reads.
    """

    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    above: tuple[Step, ...] = ()
    is_union: bool = False
    has_table: bool = False
    keeps_order: bool = True


def draw_between(seed: int, kind: str, columns: tuple[str, ...], results: tuple[str, ...]) -> Between:
    """What one of `cells.BETWEEN` is in the stream of a seed.

    Args:
        seed: of the stream.
        kind: what is to be drawn.
        columns: of the source, that the operator reads.
        results: columns that the operator gives.
    """
    rng = random.Random(f"between the source and the operator of {seed}")
    if kind == "nothing":
        return Between()
    if kind == "union with another watermark":
        return Between(is_union=True)
    if kind == "observe, above the operator":
        metrics = ["count(*)", *(rng.choice(_METRICS_ABOVE).format(rng.choice(results)) for _ in range(2))]
        return Between(above=(("observe", "above", *dict.fromkeys(metrics)),))
    if "join" in kind:
        how, table = rng.choice(("inner", "left")), rng.choice([*TABLES])
        step = ("merge" if kind.startswith("sort-merge") else "join", how, f"k_{table}", table)
        made = (step,)
        keeps_order = kind.startswith("broadcast")
        if kind.endswith("below the watermark"):
            return Between(before=made, has_table=True, keeps_order=keeps_order)
        return Between(after=made, has_table=True, keeps_order=keeps_order)
    steps = _steps(rng, kind, columns)
    is_below = kind.endswith("below the watermark") or (not kind.endswith("above the watermark") and rng.random() < 0.5)
    # A time that is computed above the watermark has none.
    is_below = is_below or any(step[:2] == ("with", "ts") for step in steps)
    return Between(before=steps) if is_below else Between(after=steps)


def _steps(rng: random.Random, kind: str, columns: tuple[str, ...]) -> tuple[Step, ...]:
    keys = [name for name in columns if name.startswith("k_")] or ["k_int", "k_string"]
    if kind == "projections":
        fitting = [name for name in columns if name[2:] in _PROJECTIONS]
        chosen = rng.sample(fitting, min(len(fitting), 2)) or ["ts"]
        return tuple(("with", name, _PROJECTIONS.get(name[2:], _PROJECTIONS["ts"]).format(name)) for name in chosen)
    if kind == "filter of a key":
        return (("where", rng.choice(_FILTERS_OF_KEYS).format(rng.choice(keys))),)
    if kind.startswith("filter of the time"):
        return (("where", rng.choice(_FILTERS_OF_TIMES)),)
    if kind == "Python UDF":
        return (("udf", rng.choice([*keys, "ts"])),)
    if kind == "explode":
        return (("explode", rng.choice(("array(0, 1)", f"sequence(0, pmod(hash({rng.choice(keys)}), 3))"))),)
    if kind == "observe, below the operator":
        return (("observe", "below", "count(*)", *rng.sample(_METRICS[1:], rng.choice((1, 2)))),)
    if kind == "current_timestamp":
        return (("where", rng.choice(_OF_NOW)),)
    assert kind == "rand(seed)", kind
    # A stream gives `rand` another seed in each micro-batch, so the rows must not depend on its value.
    if rng.random() < 0.5:
        return (("where", f"rand({rng.randrange(100)}) < 2"),)
    return (
        ("with", "chance", f"rand({rng.randrange(100)})"),
        ("where", "chance >= 0"),
        ("with", "chance", "chance < 1"),
    )


def columns_of(expressions: tuple[str, ...]) -> tuple[str, ...]:
    """Columns of the source that these read, in their order."""
    return tuple(dict.fromkeys(re.findall(r"(?:\b|_)([kv]_[a-z]+)\b", " ".join(expressions))))
