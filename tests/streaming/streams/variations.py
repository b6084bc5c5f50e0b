"""Varies streams in what a query has around its operator: each kind of them has a generator of its own, so that what
others draw from a seed stays.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

from tests.streaming.streams.case import FOLDERS, POOLS, SPELLINGS, Case, Step
from tests.streaming.streams.expressions import depends_on_order
from tests.streaming.streams.times import MICROS
from tests.streaming.streams.vocabulary import (
    ANYHOW_IN_BUFFERS,
    CONSTANT_KEYS,
    FILTERS_OF_FOLDERS,
    IN_BUFFERS,
    KEY_EXPRESSIONS,
    LITERALS,
    LITERALS_OF_KEYS,
    RESTARTS,
    SETTINGS,
    SETTINGS_OF_SPLITS,
    STRUCT_KEYS,
    SUBQUERY,
)

Literals = tuple[str, ...]
_HINTS = ("merge", "shuffle_hash", "broadcast")


def varied(case: Case) -> Case:
    """The case, varied or not."""
    for variation, share in VARIATIONS.items():
        rng = random.Random(f"{variation.__name__} of {case.seed}")
        if rng.random() < share:
            case = variation(rng, case)
    return case


def struct_keys(rng: random.Random, case: Case) -> Case:
    """A key of a nested type, where nothing above reads keys."""
    text = " ".join(part for step in case.above for part in step)
    if not case.keys or "k0" in text or case.keys[0] in ("label", "weight", "ts") or case.join:
        return case
    are_told_apart = case.grouping == "dropDuplicatesWithinWatermark"  # zeros and NaNs, so that Spark has such keys
    chosen = [
        key
        for key in STRUCT_KEYS
        if not (case.cell.source == "orc" and "ntz" in key) and not (are_told_apart and re.search("float|double", key))
    ]
    case = replace(case, keys=(rng.choice(chosen), *case.keys[1:]))
    return case.with_columns(case.read_columns(), lambda name: rng.choice([None, *POOLS[name[2:]][2]]))


def without_columns(rng: random.Random, case: Case) -> Case:
    """A query that reads none of the source's columns but the event time, and that only in a window."""
    is_aggregation = case.grouping in ("groupBy", "rollup", "cube") and not case.gap and not case.upper
    if not (is_aggregation or case.grouping == "dropDuplicates"):
        return case
    keys = rng.choice(CONSTANT_KEYS if is_aggregation else CONSTANT_KEYS[-2:])
    if "unique" in [kind for kind, *_ in case.after] or "ts" in case.keys:
        return case
    observed = tuple(("observe", step[1], "count(*)") for step in case.above if step[0] == "observe")
    top = tuple(step for step in case.above if step[0] == "top")
    after = tuple(step for step in case.after if not (step[0] == "with" and step[1].startswith("x")))
    needs_time = case.window or case.mode == "append" or not is_aggregation
    sources = case.sources if needs_time else tuple(replace(source, delay=None) for source in case.sources)
    return replace(
        case,
        sources=sources,
        grouping=case.grouping if keys else "groupBy",
        keys=keys,
        aggregates=("count(*)",) if is_aggregation else (),
        after=after,
        above=(*top, *observed),
    ).without_unread_columns()


def above(rng: random.Random, case: Case) -> Case:
    """What needs rows in partitions of its own, or has those of the operator."""
    shapes: list[Callable[[random.Random, Case], Case]] = [_with_static, _with_static, _with_static, _repartitioned]
    shapes += [
        _in_frames,
        _in_rows,
        *([_limited] if case.mode != "update" else []),
        *([_sorted] * (case.mode == "complete")),
    ]
    return rng.choice(shapes)(rng, case)


def _with_static(rng: random.Random, case: Case) -> Case:
    """A join with a static table by all keys of the operator, by some, or by something else."""
    keys = _keys_above(case)
    if rng.random() < 0.3:
        keys = rng.sample(keys, rng.randint(0, len(keys)))
    if not keys:
        shown = "n" if case.upper else _shown(case)
        keys = [(f"pmod(hash({shown}), 3)", ("0", "1"))]
    rows = [f"({', '.join(rng.choice(values) for _, values in keys)}, 'row {i}')" for i in range(rng.randint(1, 5))]
    names = [f"j{i}" for i in range(len(keys))]
    condition = " AND ".join(f"{key} = {name}" for (key, _), name in zip(keys, names, strict=True))
    # Spark pushes these below groups, where they stand between sessions and their rows: such a query stays on Spark.
    halves = () if case.gap else ("leftsemi", "leftanti")
    how = rng.choice(("inner", "left", "left", "right", *halves))
    step = ("static", rng.choice(_HINTS), how, condition, f"{', '.join(rows)} AS t({', '.join(names)}, name)")
    others = tuple(other for other in case.above if other[0] != "join")
    return replace(case, above=(step, *others))


def _repartitioned(rng: random.Random, case: Case) -> Case:
    keys = [key for key, _ in _keys_above(case)]
    number = rng.choice(("", "1", "3"))
    chosen = rng.sample(keys, rng.randint(0, len(keys)))
    if not (number or chosen):
        number = "2"
    return replace(case, above=(("repartition", number, *chosen), *case.above))


def _in_rows(rng: random.Random, case: Case) -> Case:
    keys = [key for key, _ in _keys_above(case)]
    step: Step = ("udf", rng.choice(keys)) if keys and rng.random() < 0.5 else ("explode", "array(0, 1)")
    return replace(case, above=(step, *case.above))


def _in_frames(rng: random.Random, case: Case) -> Case:
    """The last step: its rows have one column."""
    if any(step[0] in ("top", "select") for step in case.above):
        return case
    keys = [key for key, _ in _keys_above(case)]
    more = ["a0"] if case.aggregates[:1] == ("count(*)",) and not case.upper and rng.random() < 0.3 else []
    return _at_end(case, ("select", *keys, *more), ("frames", *keys, *more)) if keys else case


def _limited(rng: random.Random, case: Case) -> Case:
    """By rows that are all equal, for it is open which ones it takes. Of one row, Spark may drop the operator."""
    return _at_end(case, ("select", "1 AS one"), ("limit", rng.choice(("2", "3", "7", "1000"))))


def _sorted(rng: random.Random, case: Case) -> Case:
    return _at_end(replace(case, above=tuple(step for step in case.above if step[0] != "top")), ("sort",))


def _at_end(case: Case, *steps: Step) -> Case:
    observed = tuple(("observe", step[1], "count(*)") for step in case.above if step[0] == "observe")
    others = tuple(step for step in case.above if step[0] != "observe")
    return replace(case, above=(*others, *steps, *observed))


def _shown(case: Case) -> str:
    if case.join:
        return "w" if "w = r_w" in case.join[1] else "ts"
    return "k0" if case.keys else "a0" if case.aggregates else "window"


def _keys_above(case: Case) -> list[tuple[str, Literals]]:
    """Keys of the topmost operator as they are called above it, and some of their values."""
    times = [row[0] for source in case.sources for batch in source.batches for file in batch for row in file]
    known = sorted({time for time in times if time is not None})[:20] or [0]
    moments = tuple(f"timestamp_micros({time})" for time in known)
    if case.upper:
        time, length = case.upper
        if length:
            return [("outer", _windows((length,), known))]
        return [("t", _windows(case.window, known) if time == "window" else moments)]
    found: list[tuple[str, Literals]] = []
    if case.join:
        kinds = [part.split(" = ")[0] for part in case.join[1].split(" AND ") if part.startswith("k_")]
        return [(name, _literals(name)) for name in kinds if _literals(name)]
    if case.window:
        found.append(("window", _windows(case.window, known)))
    if case.gap:
        return found
    computed = {step[1]: step[2] for step in case.after if step[0] == "with"}
    for i, key in enumerate(case.keys):
        key = computed.get(key, key) if key.startswith("x") else key
        values = moments if key == "ts" else _literals(key)
        if values:
            found.append((f"k{i}", values))
    return found


def _literals(key: str) -> Literals:
    kind = key[2:] if key[2:] in POOLS else dict(KEY_EXPRESSIONS).get(key, "")
    return (LITERALS | LITERALS_OF_KEYS).get(kind, ())


def _windows(window: tuple[str, ...], times: list[int]) -> Literals:
    size, slide, start = (_micros(window[i]) if i < len(window) else None for i in range(3))
    assert size is not None
    slide, start = slide or size, start or 0
    starts = {(time - start) // slide * slide + start for time in times}
    return tuple(
        f"named_struct('start', timestamp_micros({one}), 'end', timestamp_micros({one + size}))"
        for one in sorted(starts)
    )


def _micros(interval: str) -> int:
    number, unit = interval.split()
    return int(number) * {"milliseconds": 1000, "minute": 60 * MICROS}.get(unit, MICROS)


def shuffled_below(rng: random.Random, case: Case) -> Case:
    """A shuffle below the operator, by its keys or others, where no result depends on the order of rows."""
    calls = set(case.aggregates)
    in_order = any(depends_on_order(call) for call in calls) or calls & {*IN_BUFFERS} - {*ANYHOW_IN_BUFFERS}
    if in_order or case.gap or case.grouping.startswith("dropDuplicates"):
        return case
    keys = [key for key in case.keys if key not in ("label", "weight")] or ["ts"]
    if case.join:
        keys = [name for name in case.columns if f"{name} = r_{name}" in case.join[1]]
    number = rng.choice(("", "1", dict(case.conf)["spark.sql.shuffle.partitions"], "3"))
    names = [key for key in keys if re.fullmatch(r"ts|k_[a-z]+|x\d", key)]
    step = ("repartition", number, *(names if names or number else ["ts"]))
    return replace(case, after=(*case.after, step))


def subqueries(rng: random.Random, case: Case) -> Case:
    """What another query finds, in a filter below the operator or above it, or in an aggregate."""
    name = rng.choice(case.columns or ("ts",))
    condition = rng.choice((f"<> {SUBQUERY}", f"IN {SUBQUERY} OR ts IS NULL"))
    below: Step = ("where", f"coalesce(hash({name}), 0) % 3 {condition}")
    kind = rng.choice(("below the watermark", "above it", "above the operator", "in an aggregate"))
    if kind == "below the watermark":
        return replace(case, before=(below, *case.before))
    if kind == "in an aggregate" and case.aggregates and not case.grouping.startswith("dropDuplicates"):
        return replace(case, aggregates=(*case.aggregates, f"count(*) FILTER (WHERE hash({name}) % 2 = {SUBQUERY})"))
    if kind == "above the operator" and case.keys and not case.upper:
        return replace(case, above=(("where", f"hash(k0) % 3 <> {SUBQUERY}"), *case.above))
    return replace(case, after=(below, *case.after))


def spelling(rng: random.Random, case: Case) -> Case:
    """Names of columns that need care."""
    columnar = case.cell.source in ("parquet", "orc")
    fitting = [name for name in SPELLINGS if columnar or "files" not in name]
    return replace(case, spelling=rng.choice(fitting)) if columnar or case.cell.source in ("json", "csv") else case


def parts(rng: random.Random, case: Case) -> Case:
    """Files in folders of a column, which is a key, or by which a filter leaves no files of some micro-batch."""
    if case.cell.source not in ("parquet", "orc", "json", "csv"):
        return case
    if case.keys and case.grouping in ("groupBy", "dropDuplicates") and rng.random() < 0.4:
        return replace(case, parts=True, keys=(*case.keys, rng.choice(FOLDERS)))
    return replace(
        case,
        parts=True,
        before=(("where", rng.choice(FILTERS_OF_FOLDERS)), *case.before),
    )


def settings(rng: random.Random, case: Case) -> Case:
    """Other settings of Spark and pyslash, from the first start on."""
    chosen = rng.choice(SETTINGS if case.grouping.startswith("drop") else SETTINGS + SETTINGS_OF_SPLITS)
    return replace(case, conf=tuple((dict(case.conf) | chosen).items()))


def restarts(rng: random.Random, case: Case) -> Case:
    """Other settings at a restart, which the query has to go on without: it keeps what it began with."""
    if len(case.runs) == 1:
        run = case.runs[0]
        if run.batches < 2:
            return case
        first = rng.randint(1, run.batches - 1)
        case = replace(case, runs=(replace(run, batches=first), replace(run, batches=run.batches - first)))
        if case.sink == "memory":
            case = replace(case, sink="foreachBatch")
    later = tuple(replace(run, conf=rng.choice(RESTARTS)) for run in case.runs[1:])
    return replace(case, runs=(case.runs[0], *later))


VARIATIONS: dict[Callable[[random.Random, Case], Case], float] = {
    struct_keys: 0.06,
    without_columns: 0.04,
    above: 0.2,
    shuffled_below: 0.06,
    subqueries: 0.06,
    parts: 0.1,
    spelling: 0.1,
    settings: 0.15,
    restarts: 0.1,
}
"""Each with the share of streams that it varies."""
