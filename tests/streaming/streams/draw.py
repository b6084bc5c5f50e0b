"""Draws a `Case` from a seed: the same seed is the same stream, on every machine."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.streaming.streams.case import POOLS, TABLES, Batch, Case, File, Row, Run, Source, Step, columns_in

SUMMABLE = ("byte", "short", "int", "long", "float", "double", "small", "large")
LITERALS = {
    "boolean": ("true", "false"),
    "byte": ("1Y", "0Y"),
    "short": ("7S", "0S"),
    "int": ("5", "0"),
    "long": ("42L", "0L"),
    "double": ("1.5D", "0.0D"),
    "date": ("DATE'2013-01-01'",),
    "small": ("0.00BD",),
    "string": ("'a'", "'zz'", "''"),
    "binary": ("X'00'",),
}
# Expressions that keys are made of, with what type they have as far as literals and static tables go.
KEY_EXPRESSIONS = (
    ("k_int % 3", ""),
    ("upper(k_string)", "string"),
    ("k_long IS NULL", "boolean"),
    ("coalesce(k_string, 'none')", "string"),
    ("length(k_string)", "int"),
    ("year(k_date)", "int"),
    ("cast(k_date AS string)", "string"),
    ("k_int > 0 AND k_boolean", "boolean"),
    ("current_date() > DATE'2001-01-01'", "boolean"),
)
AGGREGATE_EXPRESSIONS = (
    "sum(v_int) / count(*)",
    "max(v_int) - min(v_short)",
    "sum(v_short) + 1",
    "count(*) * 2 + count(v_string)",
    "coalesce(sum(v_small), 0)",
    "if(count(v_int) > 1, max(v_string), NULL)",
    "sum(v_short * 2 + 1)",
    "avg(v_short + v_byte)",
    "max(concat(v_string, '-'))",
    "sum(CASE WHEN v_boolean THEN 1 ELSE 0 END)",
    "max(ts)",
    "min(unix_micros(cast(ts AS timestamp)))",
    "stddev(v_short * 2)",
    "max_by(cast(v_int AS string), v_int)",
    "min_by(v_string IS NULL, v_string)",
    "bool_and(v_int > 0)",
    "count_if(v_double > 1)",
    "regr_avgx(v_short, v_byte)",
    "regr_count(v_short, v_byte)",
    "covar_pop(v_short, v_byte)",
)
BITS = ("byte", "short", "int", "long", "huge")
# Functions of floating-point results that rounding may leave anywhere near their true value, which may be zero.
MOMENTS = ("stddev", "stddev_pop", "var_samp", "var_pop")
# Rows that these have as equal have the same value, so that their order is not to be seen in the result.
ORDERED = tuple(kind for kind in POOLS if kind not in ("float", "double"))
# Of the first ones, of any rows in any order, the result is the same; the others need windows that do not overlap.
ANYHOW_IN_BUFFERS = (
    "percentile(v_int, 0.5)",
    "median(v_short)",
    "percentile(v_long, 0.3, v_short)",
    "size(collect_set(v_string))",
    "array_sort(collect_set(v_date))",
    "approx_count_distinct(array(v_int, v_short))",
)
IN_BUFFERS = (
    *ANYHOW_IN_BUFFERS,
    "sort_array(collect_list(v_int))",
    "sort_array(collect_list(struct(v_small, v_string)))",
    "listagg(hex(v_binary), ',') WITHIN GROUP (ORDER BY hex(v_binary))",
    "mode(v_string, true)",
    "max(struct(v_int, v_date))",
    "max_by(array(v_large), v_large)",
    "bit_length(string_agg(v_string))",
)
PREDICATES_OF_ROWS = (
    "v_int > 0",
    "v_string IS NOT NULL",
    "k_string <> 'ab'",
    "v_double >= 0 OR v_boolean",
    "v_short IN (0, 7)",
    "second(ts) % 2 = 0",
    "ts < current_timestamp()",
)
WINDOWS = (
    ("10 seconds",),
    ("10 seconds",),
    ("10 seconds", "5 seconds"),
    ("10 seconds", "4 seconds", "1 second"),
    ("7 seconds", "7 seconds", "3 seconds"),
    ("12 seconds", "2 seconds"),
    ("9 seconds", "2 seconds", "500 milliseconds"),
    ("1 minute", "20 seconds"),
)
DELAYS = (("0 seconds", 0.0), ("1500 milliseconds", 1.5), ("3 seconds", 3.0), ("10 seconds", 10.0))
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata")
STARTS = (1_000_000.0, 1_000_000.0, 1_711_846_785.0, 1_000_003.5, -25.0)
PATHS: tuple[dict[str, str], ...] = (
    {"ingest": "files"},
    {"ingest": "rows"},
    {"ingest": "arrow"},
    {"ingest": "files", "merge.driverBytes": "0"},
    {"ingest": "rows", "merge.driverBytes": "0"},
    {"ingest": "rows", "transport": "tcp", "merge.driverBytes": "0"},
    {"ingest": "rows", "strategy": "repartition"},
    {"ingest": "files", "strategy": "repartition"},
)
# Of sessions: a gap, and how far apart times are then chosen to be at their ends.
GAPS = (
    ("'5 seconds'", 5.0),
    ("'3 seconds 500 milliseconds'", 3.5),
    ("'12 seconds'", 12.0),
    ("'1 day'", 86_400.0),
    ("concat(v_byte % 50, ' seconds')", 1.0),
    ("CASE WHEN v_int > 0 THEN '4 seconds' WHEN v_int = 0 THEN '0 seconds' ELSE '9 seconds' END", 4.0),
)
MICROS = 1_000_000
_HUGE = "sum(v_huge)"
_KINDS = 6  # every so many-th stream is deduplicated
SESSIONS = float(os.environ.get("PYSLASH_STREAMS_OF_SESSIONS", "0.15"))
CHAINS = float(os.environ.get("PYSLASH_STREAMS_OF_CHAINS", "0.1"))  # aggregations of rows that are deduplicated first
JOINS = float(os.environ.get("PYSLASH_STREAMS_OF_JOINS", "0.1"))
_TYPES_OF_JOINS = ("inner", "inner", "leftouter", "rightouter", "fullouter", "leftsemi")
# Spark compiles the expressions of so many streams, and interprets those of the others, which takes an eighth less.
_COMPILED = 0.25
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# What bounds the times of both sides' rows: every type of join may have these conditions.
_TIMES_OF_JOINS = (
    "r_ts BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 9 SECONDS",
    "r_ts >= ts AND r_ts <= ts + INTERVAL 12 SECONDS",
    "ts > r_ts + INTERVAL 3 SECONDS AND ts < r_ts + INTERVAL 20 SECONDS",
    "ts = r_ts",
    "w = r_w",
)
_TIMES_OF_INNER_JOINS = ("true", "r_ts > ts", "ts <= r_ts + INTERVAL 4 SECONDS")
_CONDITIONS_OF_JOINS = (
    "v_string <> 'a'",
    "r_v_int IS NOT NULL",
    "v_int >= r_v_int",
    "v_short + r_v_short <> 7",
    "coalesce(v_string < r_v_string, k_boolean)",
)


def draw(seed: int) -> Case:
    """The stream of a seed."""
    made = _Draw(seed)
    if random.Random(f"whether {seed} is a join").random() < JOINS:
        case = made.join()
    else:
        case = made.deduplication() if seed % _KINDS == _KINDS - 1 else made.case()
    is_compiled = random.Random(f"whether {seed} is compiled").random() < _COMPILED
    return case if is_compiled else replace(case, conf=(*case.conf, *_INTERPRETED.items()))


class _Draw:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)

    def often(self, share: float) -> bool:
        return self.rng.random() < share

    def case(self) -> Case:
        rng = self.rng
        ansi = self.often(0.5)
        before, after, joined = self._below()
        keys, kinds, computed = self._keys(joined)
        after = (*after, *computed)
        mode, window, grouping = self._grouping(keys)
        aggregates = () if grouping == "groupBy" and (window or keys) and self.often(0.08) else self._aggregates()
        gap, slide_of_gap = self._gap(keys)
        if gap:
            mode, window, grouping = ("append" if mode == "update" else mode), (), "groupBy"
            aggregates = tuple(call for call in aggregates if not _depends_on_order(call)) or ("count(*)",)
        is_chain = not (ansi and _HUGE in aggregates) and random.Random(f"chain of {self.seed}").random() < CHAINS
        if is_chain:
            # Which rows come first is then another thing than which ones came first.
            after = (("unique",), *after)
            aggregates = tuple(call for call in aggregates if not _depends_on_order(call)) or ("count(*)",)
        in_buffers = self._distinct_and_in_buffers(mode, window, gap, bool(aggregates), is_chain)
        aggregates = tuple(dict.fromkeys([*aggregates, *in_buffers]))
        # Spark sums late rows up before it drops them, and only what one task has: whether such sums overflow is luck.
        calm = ansi and _HUGE in aggregates
        union = not calm and self.often(0.15)
        above = self._above(mode, bool(window or gap), kinds, aggregates)
        columns = columns_in([*before, *after, *above], [*keys, *aggregates, gap])
        slide = _seconds(window[min(1, len(window) - 1)]) if window else slide_of_gap
        is_timed = mode == "append" or self.often(0.7) or bool(in_buffers)
        delay_of_first, delay = DELAYS[-1] if calm else rng.choice(DELAYS)
        count, files = rng.randint(2, 5), rng.choice((1, 1, 2, 3))
        start = STARTS[0] if calm else rng.choice(STARTS)
        times = _Times(rng, start, delay, slide, calm)
        sources = [Source(delay_of_first if is_timed else None, files, self._batches(columns, count, files, times))]
        if union:
            text, delay = rng.choice(DELAYS)
            second = start + rng.choice((0.0, 0.0, -15.0, 30.0))
            times = _Times(rng, second, delay, slide, calm)
            sources.append(Source(text if is_timed else None, 1, self._batches(columns, count, 1, times)))
        runs = self._runs(max(len(source.batches) for source in sources), steps=not union)
        return Case(
            seed=self.seed,
            columns=columns,
            sources=tuple(sources),
            runs=runs,
            crash=rng.randrange(count) if self.often(0.15) else None,
            before=before,
            after=after,
            mode=mode,
            window=window,
            grouping=grouping,
            keys=keys,
            aggregates=aggregates,
            above=above,
            conf=(*self._conf(ansi, union), *self._conf_of_sessions()) if gap else self._conf(ansi, union),
            gap=gap,
        )

    def deduplication(self) -> Case:
        """A stream whose duplicates are dropped. Which of equal rows is kept is Spark's freedom unless one task reads
        all rows of a micro-batch: else rows of equal keys have nothing that tells them apart.
        """
        rng = self.rng
        before, after, joined = self._below()
        keys, kinds, computed = self._keys(joined)
        if not keys:
            keys, kinds = ("k_int",), ["int"]
        union, files = self.often(0.15), rng.choice((1, 1, 2, 3))
        ordered = files == 1 and not union
        is_timed = self.often(0.5)
        if is_timed:
            keys, kinds = (*keys, "ts"), [*kinds, "timestamp"]
        watermarked = is_timed or self.often(0.7)
        if ordered:
            values = tuple(f"v_{rng.choice([*POOLS])}" for _ in range(rng.randint(0, 3)))
            values = tuple(dict.fromkeys([*values, *(["ts"] if not is_timed and self.often(0.8) else [])]))
            above = self._above("append", False, kinds, ())
        else:
            # Late rows are dropped where there is an event time.
            has_time = watermarked and not is_timed
            values = (f"hash({', '.join(keys)})", *(["ts"] if has_time else []))
            shown = [f"k{i}" for i in range(len(keys))]
            timed = ["coalesce(a1, TIMESTAMP'2000-01-01') > TIMESTAMP'1900-01-01' AS timed"] if has_time else []
            above = (("select", *shown, "a0", *timed),)
        after = (*after, *computed)
        # Which row is kept decides when its key expires.
        expires = ordered and watermarked and "ts" in (*keys, *values) and self.often(0.5)
        grouping = "dropDuplicatesWithinWatermark" if expires else "dropDuplicates"
        columns = columns_in([*before, *after, *above], [*keys, *values])
        delay_of_first, delay = rng.choice(DELAYS)
        count = rng.randint(2, 5)
        start = rng.choice(STARTS)
        times = _Times(rng, start, delay, 10.0, False, grain=rng.choice((1, 2 * MICROS)))
        batches = self._batches(columns, count, files, times)
        sources = [Source(delay_of_first if watermarked else None, files, batches)]
        if union:
            text, delay = rng.choice(DELAYS)
            times = _Times(rng, start + rng.choice((0.0, -15.0, 30.0)), delay, 10.0, False, grain=2 * MICROS)
            sources.append(Source(text if watermarked else None, 1, self._batches(columns, count, 1, times)))
        return Case(
            seed=self.seed,
            columns=columns,
            sources=tuple(sources),
            runs=self._runs(max(len(source.batches) for source in sources), steps=not union),
            crash=rng.randrange(count) if self.often(0.15) else None,
            before=before,
            after=after,
            mode=rng.choice(("append", "update")),
            window=(),
            grouping=grouping,
            keys=keys,
            aggregates=values,
            above=above,
            conf=self._conf(self.often(0.5), union),
        )

    def join(self) -> Case:
        """Two streams that are joined."""
        rng = self.rng
        how = rng.choice(_TYPES_OF_JOINS)
        kinds = rng.sample([*POOLS], rng.choice((1, 1, 2)))
        times = rng.choice((*_TIMES_OF_JOINS, *(_TIMES_OF_INNER_JOINS if how == "inner" else ())))
        conditions = [*(f"k_{kind} = r_k_{kind}" for kind in kinds), times]
        conditions += rng.sample(_CONDITIONS_OF_JOINS, rng.choice((0, 1, 1, 2)))
        condition = " AND ".join(conditions)
        before: tuple[Step, ...] = (("where", rng.choice(PREDICATES_OF_ROWS[:5])),) if self.often(0.15) else ()
        above: tuple[Step, ...] = ()
        if self.often(0.3):
            above = (("where", f"k_{kinds[0]} IS NOT NULL"),)
        if self.often(0.2):
            above += (("select", f"k_{kinds[0]}", *([] if how == "leftsemi" else [f"r_k_{kinds[0]} AS other"])),)
        columns = columns_in([*before, *above], [condition, f"v_{rng.choice([*POOLS])}"])
        count, start = rng.randint(2, 5), rng.choice(STARTS)
        sources = []
        for _ in range(2):
            text, delay = rng.choice(DELAYS)
            times_of_rows = _Times(rng, start + rng.choice((0.0, 0.0, -5.0, 15.0)), delay, 10.0, False, 2 * MICROS)
            is_timed = how != "inner" or self.often(0.8)
            batches = self._batches(columns, count, 1, times_of_rows)
            sources.append(Source(text if is_timed else None, 1, batches))
        conf = dict(self._conf(self.often(0.5), True))
        conf = {name: value for name, value in conf.items() if not name.startswith("spark.slash.")}
        conf["spark.slash.ingest"] = rng.choice(("rows", "rows", "arrow", "auto"))
        conf["spark.slash.home.size"] = rng.choice(("1", "1g"))
        return Case(
            seed=self.seed,
            columns=columns,
            sources=tuple(sources),
            runs=self._runs(max(len(source.batches) for source in sources), steps=False),
            crash=rng.randrange(count) if self.often(0.15) else None,
            before=before,
            after=(),
            mode="append",
            window=(),
            grouping="join",
            keys=(),
            aggregates=(),
            above=above,
            conf=tuple(conf.items()),
            join=(how, condition),
        )

    def _gap(self, keys: tuple[str, ...]) -> tuple[str, float]:
        """The gap of sessions, or none: from a generator of its own, so that other streams stay what they were."""
        rng = random.Random(f"sessions of {self.seed}")
        return rng.choice(GAPS) if keys and rng.random() < SESSIONS else ("", 10.0)

    def _conf_of_sessions(self) -> tuple[tuple[str, str], ...]:
        rng = random.Random(f"settings of sessions of {self.seed}")
        chosen = [("spark.slash.session.rewriteBytes", rng.choice(("1", "32m")))]
        if rng.random() < 0.3:
            # Where rows are repartitioned, nobody has a task's rows together to judge them by.
            merged_early = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"
            chosen += [(merged_early, "true"), ("spark.slash.strategy", "merge")]
        return tuple(chosen)

    def _grouping(self, keys: tuple[str, ...]) -> tuple[str, tuple[str, ...], str]:
        """Output mode, window, and how groups are made."""
        rng = self.rng
        mode = rng.choice(("append", "append", "update", "update", "complete"))
        window = () if mode != "append" and self.often(0.4) else rng.choice(WINDOWS)
        sets = keys and not window and self.often(0.2)
        return mode, window, rng.choice(("rollup", "cube")) if sets else "groupBy"

    def _conf(self, ansi: bool, union: bool) -> tuple[tuple[str, str], ...]:
        rng = self.rng
        conf = {
            "spark.sql.session.timeZone": rng.choice(ZONES),
            "spark.sql.ansi.enabled": str(ansi).lower(),
            "spark.sql.shuffle.partitions": rng.choice(("1", "1", "2")),
            "spark.sql.codegen.wholeStage": str(self.often(0.25)).lower(),
            "spark.sql.streaming.multipleWatermarkPolicy": rng.choice(("min", "max")) if union else "min",
        }
        conf |= {f"spark.slash.{name}": value for name, value in rng.choice(PATHS).items()}
        return tuple(conf.items())

    def _below(self) -> tuple[tuple[Step, ...], tuple[Step, ...], bool]:
        """Operators before and after the watermark, and whether a static table's columns are there."""
        rng = self.rng
        before: list[Step] = []
        after: list[Step] = []
        joined = self.often(0.2)
        if self.often(0.08):
            before.append(("with", "ts", "ts + INTERVAL '2' SECOND"))
        for steps, share in ((before, 0.15), (after, 0.25)):
            if self.often(share):
                steps.append(("where", rng.choice(PREDICATES_OF_ROWS)))
        if joined:
            kind = rng.choice([*TABLES])
            steps = before if self.often(0.3) else after
            steps.append(("join", rng.choice(("inner", "left")), f"k_{kind}", kind))
        return tuple(before), tuple(after), joined

    def _keys(self, joined: bool) -> tuple[tuple[str, ...], list[str], list[Step]]:
        """Key expressions, their types, and the columns that the rows have to be given for them."""
        keys: list[str] = []
        kinds: list[str] = []
        computed: list[Step] = []
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3))):
            if joined and self.often(0.5):
                key, kind = self.rng.choice((("label", "string"), ("weight", "long")))
            elif self.often(0.25):
                key, kind = self.rng.choice(KEY_EXPRESSIONS)
            else:
                kind = self.rng.choice([name for name in POOLS if name != "huge"])
                key = f"k_{kind}"
            if key in keys:
                continue
            if self.often(0.15):
                computed.append(("with", f"x{len(keys)}", key))
                key = f"x{len(keys)}"
            keys.append(key)
            kinds.append(kind)
        return tuple(keys), kinds, computed

    def _aggregates(self) -> tuple[str, ...]:
        calls = [self._aggregate() for _ in range(self.rng.randint(1, 4))]
        if self.often(0.1):
            calls.append(_HUGE)  # overflows: an error with ANSI, wraps without
        return tuple(dict.fromkeys(calls))

    def _aggregate(self) -> str:
        rng = self.rng
        kind = rng.random()
        around = "{}"
        if kind < 0.2:
            return rng.choice(AGGREGATE_EXPRESSIONS)
        if kind < 0.4:
            call = "count(*)"
        elif kind < 0.5:
            call = f"count(v_{rng.choice([*POOLS])})"
        elif kind < 0.65:
            call = f"{rng.choice(('sum', 'avg', 'try_avg'))}(v_{rng.choice(SUMMABLE)})"
        elif kind < 0.85:
            call, around = self._other_aggregate()
        else:
            call = f"{rng.choice(('min', 'max'))}(v_{rng.choice([*POOLS])})"
        if self.often(0.2):
            call += f" FILTER (WHERE {rng.choice(PREDICATES_OF_ROWS[:5])})"
        return around.format(call)

    def _distinct_and_in_buffers(
        self, mode: str, window: tuple[str, ...], gap: str, aggregates: bool, is_chain: bool
    ) -> list[str]:
        """Aggregates whose results Spark makes; from a generator of its own: other streams stay what they were."""
        rng = random.Random(f"buffers of {self.seed}")
        calls = []
        if aggregates and rng.random() < 0.2:
            calls.append(f"approx_count_distinct(v_{rng.choice([*POOLS])}{rng.choice(('', ', 0.2'))})")
        if aggregates and window and not gap and mode != "complete" and rng.random() < 0.5:
            in_any_order = is_chain or (len(window) > 1 and window[0] != window[1])
            calls += rng.sample(ANYHOW_IN_BUFFERS if in_any_order else IN_BUFFERS, rng.choice((1, 1, 2)))
        return calls

    def _other_aggregate(self) -> tuple[str, str]:
        """A call, and what is made of its result."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.15:
            return f"{rng.choice(('bit_and', 'bit_or', 'bit_xor'))}(v_{rng.choice(BITS)})", "{}"
        if kind < 0.25:
            return f"{rng.choice(('bool_and', 'bool_or', 'every', 'some'))}(v_boolean)", "{}"
        if kind < 0.45:
            ordering = rng.choice(ORDERED)
            return f"{rng.choice(('max_by', 'min_by'))}(v_{ordering}, v_{ordering})", "{}"
        if kind < 0.55:
            return f"{rng.choice(('first', 'last', 'any_value'))}(v_{rng.choice([*POOLS])}, true)", "{} IS NULL"
        if kind < 0.65:
            return f"try_sum(v_{rng.choice(SUMMABLE)})", "{}"
        return f"{rng.choice(MOMENTS)}(v_{rng.choice(('byte', 'short'))})", "round({} + 0.00012345, 3)"

    def _above(self, mode: str, windowed: bool, kinds: list[str], aggregates: tuple[str, ...]) -> tuple[Step, ...]:
        rng = self.rng
        steps: list[Step] = []
        if self.often(0.3):
            conditions = ["second(window.start) % 20 < 10", "window.end > window.start"] if windowed else ["1 > 0"]
            conditions += ["a0 IS NOT NULL"] if aggregates else []
            for i, kind in enumerate(kinds):
                conditions += [f"k{i} IS NOT NULL", f"k{i} IS NULL"]
                conditions += [f"k{i} = {value}" for value in LITERALS.get(kind, ())]
            conditions += [f"a{i} > 1" for i, call in enumerate(aggregates) if call == "count(*)"]
            steps.append(("where", rng.choice(conditions)))
        for i, kind in enumerate(kinds):
            if kind in TABLES and self.often(0.15):
                steps.append(("join", rng.choice(("inner", "left")), f"k{i}", kind))
                break
        if self.often(0.25):
            chosen = []
            if windowed:
                chosen += ["date_format(window.start, 'yyyy-MM-dd HH:mm:ss') AS starts", "window.end AS ends"]
            chosen += [f"k{i}" for i in range(len(kinds))]
            chosen += [f"a{i} AS result{i}" for i in range(len(aggregates))]
            chosen += ["current_timestamp() > TIMESTAMP'2001-01-01' AS now"]
            steps.append(("select", *rng.sample(chosen, rng.randint(1, len(chosen)))))
        if mode == "complete" and self.often(0.3):
            steps.append(("top", str(rng.choice((1, 5, 1000)))))
        return tuple(steps)

    def _runs(self, batches: int, steps: bool) -> tuple[Run, ...]:
        """How the batches are shared among starts of the query. Two sources are not listed at the same moment."""
        runs = []
        while batches:
            size = batches if self.often(0.6) else self.rng.randint(1, batches)
            runs.append(Run("step" if steps and self.often(0.4) else "available", size))
            batches -= size
        return tuple(runs)

    def _batches(self, columns: tuple[str, ...], count: int, files: int, times: _Times) -> tuple[Batch, ...]:
        values = [self._values(POOLS[name[2:]][2]) for name in columns]
        step = self.rng.choice((0.0, 4.0, 9.5, 15.0))
        batches = []
        for index in range(count):
            shape = [self.rng.choice((0, 1, 4, 10, 18)) if self.often(0.8) else 0 for _ in range(files)]
            moments = [[times.next() for _ in range(rows)] for rows in shape]
            batches.append(tuple(tuple(self._row(time, values) for time in file) for file in moments))
            times.advance(step)
            if index == count - 2 and (times.calm or self.often(0.7)):
                last = times.first + 1000 * self.rng.choice((1, 100)) * MICROS
                files_of_one: list[File] = [() for _ in range(files)]
                files_of_one[0] = (self._row(last, values),)
                batches.append(tuple(files_of_one))
                break
        return tuple(batches)

    def _values(self, pool: list[Any]) -> Callable[[], Any]:
        """Draws of a column: few or many nulls, one value that is hot."""
        rng = self.rng
        nulls, hot = rng.choice((0.0, 0.1, 0.5)), rng.choice(pool)

        def value() -> Any:
            return None if rng.random() < nulls else hot if rng.random() < 0.3 else rng.choice(pool)

        return value

    def _row(self, time: int | None, values: list[Callable[[], Any]]) -> Row:
        return (time, *(value() for value in values))


class _Times:
    """Event times: mostly near the front, some late, some exactly at a window's end or at a watermark.

    `calm`: none is late, with a delay of 10 s. All are multiples of `grain`, in microseconds.
    """

    def __init__(
        self, rng: random.Random, start: float, delay: float, slide: float, calm: bool, grain: int = 1
    ) -> None:
        self._rng = rng
        self._grain = grain
        self.calm = calm
        self.first = self._front = int(start * MICROS)
        self._delay = int(delay * MICROS)
        self._slide = int(slide * MICROS)
        self._latest = self._front
        self._marks = [self._front - self._delay]

    def advance(self, seconds: float) -> None:
        """The batch has ended."""
        self._front += int(seconds * MICROS)
        self._marks = [*self._marks[-1:], self._latest // 1000 * 1000 - self._delay]

    def next(self) -> int | None:
        """The time of one row, in microseconds."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.04:
            return None
        if self.calm:
            time = self._front + int(rng.uniform(0, 8) * MICROS)
        elif kind < 0.25:
            time = self._front - int(rng.uniform(0, 40) * MICROS)
        elif kind < 0.5:
            close = rng.choice((self._front, *self._marks))
            time = rng.choice((close, close // self._slide * self._slide))
            time += rng.choice((0, 0, -1, 1, -1000, 1000, -self._slide))
        else:
            time = self._front + int(rng.uniform(-8, 8) * MICROS)
        time -= time % self._grain
        self._latest = max(self._latest, time)
        return time


def _depends_on_order(call: str) -> bool:
    return any(f"{name}(" in call for name in ("first", "last", "any_value"))


def _seconds(interval: str) -> float:
    number, unit = interval.split()
    return float(number) * {"milliseconds": 0.001, "minute": 60}.get(unit, 1)
