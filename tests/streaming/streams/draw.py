"""Draws a `Case` from a seed: the same seed is the same stream, on every machine."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.streaming.streams.between import Between, columns_of, draw_between
from tests.streaming.streams.case import POOLS, Batch, Case, File, Row, Run, Source, Step, columns_in
from tests.streaming.streams.cells import FILES, Cell, cell
from tests.streaming.streams.expressions import Expressions, depends_on_order
from tests.streaming.streams.sources import kinds_of
from tests.streaming.streams.times import MICROS, Times
from tests.streaming.streams.variations import varied
from tests.streaming.streams.vocabulary import (
    ANYHOW_IN_BUFFERS,
    COMPILED,
    CONDITIONS_OF_JOINS,
    DELAYS,
    GAPS,
    HUGE,
    IN_BUFFERS,
    INTERPRETED,
    PATHS,
    STARTS,
    TIMES_OF_INNER_JOINS,
    TIMES_OF_JOINS,
    WINDOWS,
    ZONES,
)


@dataclass(frozen=True)
class Parts:
    """Of a query: what is drawn for its operator."""

    after: tuple[Step, ...]
    window: tuple[str, ...]
    grouping: str
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    above: tuple[Step, ...]
    conf: tuple[tuple[str, str], ...]
    gap: str = ""
    join: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def draw(seed: int, sources: tuple[str, ...] = FILES, of: Cell | None = None) -> Case:
    """The stream of a seed, for the cell of the matrix that is the seed's, or for another one."""
    made = _Draw(seed, of or cell(seed, sources))
    case = varied(made.case())
    is_compiled = random.Random(f"whether {seed} is compiled").random() < COMPILED
    return case if is_compiled else replace(case, conf=(*case.conf, *INTERPRETED.items()))


class _Draw(Expressions):
    def __init__(self, seed: int, cell: Cell) -> None:
        super().__init__(random.Random(seed), kinds_of(cell.source))
        self.seed, self.cell = seed, cell

    def case(self) -> Case:
        """By the operator."""
        operator = self.cell.operator
        if "join" in operator:
            case = self._join()
        elif operator.startswith("dropDuplicates"):
            case = self._deduplication()
        elif operator == "chain" and self.cell.mode == "append":
            case = self._chain()
        else:
            case = self._aggregation()
        return self._with_sink(case)

    def _aggregation(self) -> Case:
        rng, operator, mode = self.rng, self.cell.operator, self.cell.mode
        ansi = self.often(0.5)
        has_table = "-merge join" in self.cell.between or "broadcast join" in self.cell.between
        keys, kinds, computed = self.keys(has_table)
        gap, slide_of_gap = rng.choice(GAPS) if operator == "session" else ("", 10.0)
        if gap and not keys:
            keys, kinds = ("k_int",), ["int"]
        window = () if operator in ("keys", "session") else rng.choice(WINDOWS)
        grouping = rng.choice(("rollup", "cube")) if keys and operator == "keys" and self.often(0.2) else "groupBy"
        if operator == "event time":
            if self.often(0.6):
                window, keys, kinds = (), (*keys, "ts"), [*kinds, "timestamp"]
            else:
                grouping = rng.choice(("rollup", "cube"))
        is_bare = grouping == "groupBy" and not gap and (window or keys) and self.often(0.08)
        aggregates = () if is_bare else self.aggregates()
        is_chain = operator == "chain"
        in_any_order = gap or is_chain or "sort-merge" in self.cell.between
        if in_any_order:
            aggregates = tuple(call for call in aggregates if not depends_on_order(call)) or ("count(*)",)
        is_endless = aggregates and not gap and (operator == "keys" or mode == "complete")
        may_have_buffers = is_endless or (operator == "event time" and grouping == "groupBy")
        if operator == "window, in Spark's buffers" or (may_have_buffers and aggregates and self.often(0.3)):
            in_buffers = rng.sample(ANYHOW_IN_BUFFERS if in_any_order else IN_BUFFERS, rng.choice((1, 1, 2)))
            aggregates = tuple(dict.fromkeys([*aggregates, *in_buffers]))
        elif aggregates and self.often(0.15):
            call = f"approx_count_distinct(v_{rng.choice(self.kinds)}{rng.choice(('', ', 0.2'))})"
            aggregates = tuple(dict.fromkeys([*aggregates, call]))
        if ansi and is_chain:
            aggregates = tuple(call for call in aggregates if call != HUGE) or ("count(*)",)
        above = self.above(mode, bool(window or gap), kinds, aggregates)
        results = (*(f"k{i}" for i in range(len(keys))), *(f"a{i}" for i in range(len(aggregates))))
        if any(kind == "select" for kind, *_ in above):
            results = ()
        read = columns_of((*keys, *(text for _, *texts in computed for text in texts), *aggregates, gap))
        between = draw_between(self.seed, self.cell.between, read, results or ("1",))
        after = (*between.after, *computed)
        if is_chain:
            # Which rows come first is then another thing than which ones came first.
            after = (*after, ("unique",))
        # Spark sums late rows up before it drops them, and only what one task has: whether such sums overflow is luck.
        calm = ansi and HUGE in aggregates
        slide = _seconds(window[min(1, len(window) - 1)]) if window else slide_of_gap
        is_timed = mode == "append" or self.often(0.7)
        return self._of(
            between,
            Parts(
                after=after,
                window=window,
                grouping=grouping,
                keys=keys,
                aggregates=aggregates,
                above=(*above, *between.above),
                conf=self._conf(ansi) + (self._conf_of_sessions() if gap else ()),
                gap=gap,
            ),
            slide=slide,
            delays=[is_timed] * (2 if between.is_union else 1),
            calm=calm,
        )

    def _chain(self) -> Case:
        """Windows over rows without duplicates, over windows or over a join."""
        below = self.rng.choice(("duplicates", "windows", "join"))
        case = self._join() if below == "join" else self._aggregation()
        if below == "duplicates":
            return case
        after = tuple(step for step in case.after if step != ("unique",))
        observed = [step[1] for step in case.above if step[0] == "observe"]
        above = tuple(("observe", name, "count(*)", "max(n)", "sum(h)") for name in observed)
        time = "ts" if below == "join" else self.rng.choice(("window_time(window)", "window"))
        # Without a length the groups are of the time itself.
        upper = (time, self.rng.choice(("30 seconds", "1 minute", "")))
        return replace(case, after=after, above=above, upper=upper).without_unread_columns()

    def _deduplication(self) -> Case:
        """A stream whose duplicates are dropped. Which of equal rows is kept is Spark's freedom unless one task reads
        all rows of a micro-batch: else rows of equal keys have nothing that tells them apart.
        """
        rng = self.rng
        expires = self.cell.operator == "dropDuplicatesWithinWatermark"
        has_table = "-merge join" in self.cell.between or "broadcast join" in self.cell.between
        keys, kinds, computed = self.keys(has_table)
        if not keys:
            keys, kinds = ("k_int",), ["int"]
        files = 1 if expires else rng.choice((1, 1, 2, 3))
        is_union = self.cell.between.startswith("union")
        ordered = files == 1 and not is_union and "sort-merge" not in self.cell.between
        is_timed = not expires and self.often(0.5)
        watermarked = is_timed or expires or self.often(0.7)
        if expires and not ordered:
            # Which row is kept decides when its key expires.
            keys, kinds, is_timed = (*keys, "ts"), [*kinds, "timestamp"], True
        elif is_timed:
            keys, kinds = (*keys, "ts"), [*kinds, "timestamp"]
        if ordered:
            values = tuple(f"v_{rng.choice(self.kinds)}" for _ in range(rng.randint(0, 3)))
            has_time = not is_timed and (expires or self.often(0.8))
            values = tuple(dict.fromkeys([*values, *(["ts"] if has_time else [])]))
            above = self.above("append", False, kinds, ())
        else:
            # Late rows are dropped where there is an event time.
            has_time = watermarked and not is_timed
            values = (f"hash({', '.join(keys)})", *(["ts"] if has_time else []))
            shown = [f"k{i}" for i in range(len(keys))]
            timed = ["coalesce(a1, TIMESTAMP'2000-01-01') > TIMESTAMP'1900-01-01' AS timed"] if has_time else []
            above = (("select", *shown, "a0", *timed),)
        read = columns_of((*keys, *(text for _, *texts in computed for text in texts), *values))
        results = tuple(f"k{i}" for i in range(len(keys)))
        results = () if any(kind == "select" for kind, *_ in above) and ordered else results
        between = draw_between(self.seed, self.cell.between, read, results or ("1",))
        return self._of(
            between,
            Parts(
                after=(*between.after, *computed),
                window=(),
                grouping=self.cell.operator,
                keys=keys,
                aggregates=values,
                above=(*above, *between.above),
                conf=self._conf(self.often(0.5)),
            ),
            slide=10.0,
            delays=[watermarked] * (2 if is_union else 1),
            grain=2 * MICROS if is_union else rng.choice((1, 2 * MICROS)),
            files=files,
        )

    def _join(self) -> Case:
        """Two streams that are joined."""
        rng = self.rng
        is_chain = self.cell.operator == "chain"
        how = "inner" if is_chain else self.cell.operator.split()[0]
        kinds = rng.sample(self.kinds, rng.choice((1, 1, 2)))
        of_windows = TIMES_OF_JOINS[-1:]  # these have no other time
        times = rng.choice((*TIMES_OF_JOINS, *(TIMES_OF_INNER_JOINS if how == "inner" else ())))
        if is_chain:
            times = rng.choice([one for one in TIMES_OF_JOINS if one not in of_windows])
        conditions = [*(f"k_{kind} = r_k_{kind}" for kind in kinds), times]
        conditions += rng.sample(CONDITIONS_OF_JOINS, rng.choice((0, 1, 1, 2)))
        condition = " AND ".join(conditions)
        above: tuple[Step, ...] = ()
        if self.often(0.3):
            above = (("where", f"k_{kinds[0]} IS NOT NULL"),)
        if self.often(0.2):
            above += (("select", f"k_{kinds[0]}", *([] if how == "leftsemi" else [f"r_k_{kinds[0]} AS other"])),)
        read = columns_of((condition, f"v_{rng.choice(self.kinds)}"))
        between = draw_between(self.seed, self.cell.between, read, (f"k_{kinds[0]}",))
        conf = dict(self._conf(self.often(0.5)))
        conf = {name: value for name, value in conf.items() if not name.startswith("spark.slash.")}
        conf["spark.slash.ingest"] = rng.choice(("rows", "auto", "rows", "auto"))
        conf["spark.slash.home.size"] = rng.choice(("1", "1g"))
        of_homes = random.Random(f"homes of {self.seed}")
        conf["spark.slash.merge.driverBytes"] = of_homes.choice(("0", "1k", "1m"))
        return self._of(
            between,
            Parts(
                after=between.after,
                window=(),
                grouping="join",
                keys=(),
                aggregates=(),
                above=(*above, *between.above),
                conf=tuple(conf.items()),
                join=(how, condition),
                columns=read,
            ),
            slide=10.0,
            delays=[how != "inner" or is_chain or self.often(0.8) for _ in range(3 if between.is_union else 2)],
            grain=2 * MICROS,
            files=1,
        )

    def _of(
        self,
        between: Between,
        parts: Parts,
        slide: float,
        delays: list[bool],
        calm: bool = False,
        grain: int = 1,
        files: int = 0,
    ) -> Case:
        """The case of a query: its rows, its runs, and how it fails.

        `delays`: of each source, whether it has a watermark. Without `files`, their number is drawn.
        """
        rng = self.rng
        if self.cell.source == "orc" and grain % MICROS:
            grain = MICROS  # of a fraction before 1970, pyarrow writes nanoseconds that Spark's reader refuses
        texts = [*parts.keys, *parts.aggregates, parts.gap, *parts.join]
        columns = tuple(sorted({*columns_in([*between.before, *parts.after, *parts.above], texts), *parts.columns}))
        count, files = rng.randint(2, 5), files or rng.choice((1, 1, 2, 3))
        start = STARTS[0] if calm else rng.choice(STARTS)
        sources = []
        for number, is_timed in enumerate(delays):
            text, delay = DELAYS[-1] if calm else rng.choice(DELAYS)
            shift = rng.choice((0.0, 0.0, -15.0, 30.0)) if number else 0.0
            times = Times(rng, start + (0.0 if calm else shift), delay, slide, calm, grain)
            of_one = files if number == 0 else 1
            batches = self._batches(columns, count, of_one, times)
            sources.append(Source(text if is_timed else None, of_one, batches))
        # Two sources are not listed at the same moment.
        steps = len(sources) == 1 and self.cell.source not in ("rate", "kafka json", "kafka binary")
        runs = self._runs(max(len(source.batches) for source in sources), steps)
        return Case(
            seed=self.seed,
            cell=self.cell,
            columns=columns,
            sources=tuple(sources),
            runs=runs,
            crash=rng.randrange(count) if self.often(0.15) else None,
            before=between.before,
            after=parts.after,
            mode=self.cell.mode,
            window=parts.window,
            grouping=parts.grouping,
            keys=parts.keys,
            aggregates=parts.aggregates,
            above=parts.above,
            conf=parts.conf,
            gap=parts.gap,
            join=parts.join,
        )

    def _with_sink(self, case: Case) -> Case:
        """Most have a function; the others show what they write by how much it is."""
        rng = random.Random(f"the sink of {self.seed}")
        if rng.random() < 0.7 or any(step[0] == "top" for step in case.above):
            return case
        if len(case.runs) == 1 and rng.random() < 0.6:
            return replace(case, crash=None, sink="memory")
        return replace(case, crash=None, sink="files") if case.mode == "append" else case

    def _conf_of_sessions(self) -> tuple[tuple[str, str], ...]:
        rng = random.Random(f"settings of sessions of {self.seed}")
        chosen = [("spark.slash.session.rewriteBytes", rng.choice(("1", "32m")))]
        if rng.random() < 0.3:
            # Where rows are repartitioned, nobody has a task's rows together to judge them by.
            merged_early = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"
            chosen += [(merged_early, "true"), ("spark.slash.strategy", "merge")]
        return tuple(chosen)

    def _conf(self, ansi: bool) -> tuple[tuple[str, str], ...]:
        rng = self.rng
        union = self.cell.between.startswith("union") or "join" in self.cell.operator
        conf = {
            "spark.sql.session.timeZone": rng.choice(ZONES),
            "spark.sql.ansi.enabled": str(ansi).lower(),
            "spark.sql.shuffle.partitions": rng.choice(("1", "1", "2")),
            "spark.sql.codegen.wholeStage": "true",
            "spark.sql.streaming.multipleWatermarkPolicy": rng.choice(("min", "max")) if union else "min",
        }
        path = dict(rng.choice(PATHS))
        if path["ingest"] == "files" and self.cell.source not in ("parquet", "delta"):
            path["ingest"] = "auto"  # native code reads files of Parquet alone as files
        conf |= {f"spark.slash.{name}": value for name, value in path.items()}
        conf["spark.slash.buffers.foldEpochs"] = rng.choice(("1", "2", "32"))
        return tuple(conf.items())

    def _runs(self, batches: int, steps: bool) -> tuple[Run, ...]:
        """How the batches are shared among starts of the query."""
        if self.cell.source == "rate":
            return (Run("available", 1),) * batches
        runs = []
        while batches:
            size = batches if self.often(0.6) else self.rng.randint(1, batches)
            runs.append(Run("step" if steps and self.often(0.4) else "available", size))
            batches -= size
        return tuple(runs)

    def _batches(self, columns: tuple[str, ...], count: int, files: int, times: Times) -> tuple[Batch, ...]:
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


def _seconds(interval: str) -> float:
    number, unit = interval.split()
    return float(number) * {"milliseconds": 0.001, "minute": 60}.get(unit, 1)
