"""A `Case`: one random stream with its query, as data. It can be shrunk, printed for a reader, and made a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.streaming.streams.cells import Cell

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAN, INF = float("nan"), float("inf")


def at(seconds: float) -> datetime:
    """A moment."""
    return EPOCH + timedelta(seconds=seconds)


# Column type -> Spark's name of it, Arrow's, values to draw from. A column is `k_<type>` or `v_<type>`, and nullable.
POOLS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "boolean": ("boolean", pa.bool_(), [True, False]),
    "byte": ("tinyint", pa.int8(), [-128, -1, 0, 1, 127]),
    "short": ("smallint", pa.int16(), [-32768, 0, 7, 32767]),
    "int": ("int", pa.int32(), [-(2**31), -1, 0, 5, 2**31 - 1]),
    "long": ("bigint", pa.int64(), [-(2**50), -1, 0, 42, 2**50]),
    "huge": ("bigint", pa.int64(), [0, 42, 2**62]),
    "float": ("float", pa.float32(), [-0.0, 0.0, 1.5, -2.25, NAN, INF]),
    "double": ("double", pa.float64(), [-0.0, 0.0, 1.5, -1e100, NAN, 0.1]),
    "date": ("date", pa.date32(), [date(1969, 12, 31), date(2013, 1, 1), date(9999, 12, 31)]),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC"), [at(-1), at(0), at(1e9)]),
    "ntz": ("timestamp_ntz", pa.timestamp("us"), [datetime(1960, 1, 1), datetime(2000, 2, 29, 1, 2, 3, 4)]),
    "small": (
        "decimal(10,2)",
        pa.decimal128(10, 2),
        [Decimal("-1.25"), Decimal("0.00"), Decimal("99999999.99")],
    ),
    "large": (
        "decimal(30,5)",
        pa.decimal128(30, 5),
        [Decimal("-123456789012345678901.12345"), Decimal("0.00001"), Decimal("7.00000")],
    ),
    "string": ("string", pa.string(), ["", "a", "ab", "a" * 40, "é", "zz"]),
    "binary": ("binary", pa.binary(), [b"", b"\x00", b"\x00\x01", b"\xff" * 20]),
}

Spelled = Callable[[str], str]
SPELLINGS: dict[str, tuple[Spelled, Spelled]] = {
    "plain": (str, str),
    "dot": ("a.{}".format, "a.{}".format),
    "blank": ("{} é".format, "{} é".format),
    "upper case in files": (str.upper, str),
}
"""How a column's name is spelled in files, and in the query's schema of them."""

FOLDERS = ("b", "p")
"""Of a batch's number, and of a number or null for each of its files."""

Row = tuple[Any, ...]
"""The event time in microseconds since 1970, or None, and the values of `Case.columns`."""
File = tuple[Row, ...]
Batch = tuple[File, ...]
Step = tuple[str, ...]
"""One of ("where", condition), ("with", name, expression), ("select", expressions...), ("unique",), ("top", number),
("udf", column), a filter in Python, ("explode", expression), ("observe", name, metrics...) and, with a static table,
("join", how, key, table) by a broadcast and ("merge", how, key, table) by sorting; ("repartition", number or nothing,
keys...). Above the operator also ("static", hint, how, condition, rows), a join with a table of these rows, ("frames",
keys...), groups in Python, ("limit", number) and ("sort",)."""

TABLES = {
    "int": "SELECT * FROM VALUES (-1, 'minus', 1L), (0, 'zero', 2L), (5, NULL, 3L) AS t(j, label, weight)",
    "long": "SELECT * FROM VALUES (-1L, 'minus', 1L), (0L, NULL, 2L), (42L, 'answer', 3L) AS t(j, label, weight)",
    "string": "SELECT * FROM VALUES ('', 'empty', 1L), ('a', 'one', 2L), ('zz', NULL, 3L) AS t(j, label, weight)",
}


@dataclass(frozen=True)
class Source:
    """A stream of files, or of what is like them in another source: a part of a batch that one task reads. All batches
    have as many files, perhaps without rows; an empty batch: nothing is added.

    Without a `delay` it has no watermark.
    """

    delay: str | None
    files: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Run:
    """A query's life between two starts: `available` reads its batches at once, `step` waits after each of them.

    `conf`: what is set otherwise when it starts.
    """

    how: str
    batches: int
    conf: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Case:
    """One stream. `crash`: the batch whose function fails at its first attempt; the query is then started again.

    `window` is empty where the query groups without one; `grouping` is then `groupBy`, `rollup` or `cube`, or the name
    of a deduplication, whose rows have the `aggregates` beside the keys. With a `gap`, an expression, it groups by
    sessions. With a `join`, how and by what condition, its two sources are joined: columns of the right one begin with
    `r_`, and where the condition is on the window `w`, rows have that and no time. `upper`, a time and a length, is a
    window over the results, or groups of that time. The `sink` is `foreachBatch`, `memory` or `files`. Names of the
    files' columns are spelled as `SPELLINGS` says. With `parts`, files are in folders of the columns `FOLDERS`.
    """

    seed: int
    cell: Cell
    columns: tuple[str, ...]
    sources: tuple[Source, ...]
    runs: tuple[Run, ...]
    crash: int | None
    before: tuple[Step, ...]
    after: tuple[Step, ...]
    mode: str
    window: tuple[str, ...]
    grouping: str
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    above: tuple[Step, ...]
    conf: tuple[tuple[str, str], ...]
    gap: str = ""
    join: tuple[str, ...] = ()
    upper: tuple[str, ...] = ()
    sink: str = "foreachBatch"
    spelling: str = "plain"
    parts: bool = False

    @property
    def batches(self) -> int:
        """Batches with new files, whichever source they are of."""
        return sum(run.batches for run in self.runs)

    @property
    def rows(self) -> int:
        """Rows of all sources."""
        return sum(len(file) for source in self.sources for batch in source.batches for file in batch)

    def without_unread_columns(self) -> Case:
        """The same with only those columns in its files that the query reads."""
        return self.with_columns(self.read_columns())

    def read_columns(self) -> tuple[str, ...]:
        """Columns of the files that the query reads."""
        return columns_in(
            [*self.before, *self.after, *self.above], [*self.keys, *self.aggregates, self.gap, *self.join]
        )

    def with_columns(self, columns: tuple[str, ...], other: Callable[[str], Any] = lambda name: None) -> Case:
        """The same with these columns in its files; of one that they lack, `other` gives the values."""
        places = {name: 1 + i for i, name in enumerate(self.columns)}

        def changed(row: Row) -> Row:
            return (row[0], *(row[places[name]] if name in places else other(name) for name in columns))

        sources = tuple(
            replace(
                source,
                batches=tuple(tuple(tuple(map(changed, file)) for file in batch) for batch in source.batches),
            )
            for source in self.sources
        )
        return replace(self, columns=columns, sources=sources)

    def schema(self) -> pa.Schema:
        """Of the files."""
        in_file, _ = SPELLINGS[self.spelling]
        fields = [("ts", pa.timestamp("us", "UTC")), *((name, POOLS[name[2:]][1]) for name in self.columns)]
        return pa.schema([(in_file(name), kind) for name, kind in fields])

    def table(self, file: File) -> pa.Table:
        """A file's rows."""
        schema = self.schema()
        columns = [[row[i] for row in file] for i in range(len(schema.names))]
        arrays = [pa.array(columns[0], pa.int64()).cast(schema.types[0])]
        arrays += [pa.array(values, kind) for values, kind in zip(columns[1:], schema.types[1:], strict=True)]
        return pa.table(arrays, schema=schema)

    def ddl(self) -> str:
        """The schema of the files, for Spark."""
        fields = [("ts", "timestamp"), *((name, POOLS[name[2:]][0]) for name in self.columns)]
        if self.spelling != "plain":
            fields = [(f"`{self._in_table(name)}`", kind) for name, kind in fields]
        return ", ".join(f"{name} {kind}" for name, kind in [*fields, *((name, "int") for name in self._folders())])

    def _folders(self) -> tuple[str, ...]:
        return FOLDERS if self.parts else ()

    def _in_table(self, name: str) -> str:
        return SPELLINGS[self.spelling][1](name)

    def query(self, spark: SparkSession, rows: list[DataFrame]) -> DataFrame:
        """The query over the rows of the sources."""
        streams = [self._stream(spark, *parts) for parts in enumerate(zip(self.sources, rows, strict=True))]
        *lefts, right = streams
        if not self.join:
            lefts = streams
        left = lefts[0]
        for other in lefts[1:]:
            left = left.union(other)
        results = self._joined(left, right) if self.join else self._grouped(spark, left)
        if self.upper:
            results = self._windows_of(results)
        return _apply(spark, results, self.above)

    def _stream(self, spark: SparkSession, number: int, parts: tuple[Source, DataFrame]) -> DataFrame:
        """One source, up to the operator."""
        source, rows = parts
        if self.spelling != "plain":
            named = [F.col(f"`{self._in_table(name)}`").alias(name) for name in ("ts", *self.columns)]
            rows = rows.select(*named, *self._folders())
        rows = _apply(spark, rows, self.before, number)
        rows = rows if source.delay is None else rows.withWatermark("ts", source.delay)
        return _apply(spark, rows, self.after, number)

    def _windows_of(self, results: DataFrame) -> DataFrame:
        time, length = self.upper
        keys = [name for name in results.columns if name.startswith(("k_", "k0"))] or [F.lit(1)]
        rows = results.select(F.expr(time).alias("t"), F.hash(*keys).alias("h"))
        outer = F.window("t", length).alias("outer") if length else F.col("t")
        return rows.groupBy(outer).agg(F.count("*").alias("n"), F.sum("h").alias("h"))

    def _joined(self, left: DataFrame, right: DataFrame) -> DataFrame:
        how, condition = self.join
        if "w = r_w" in condition:
            window = F.window("ts", "10 seconds").alias("w")
            left, right = (side.select(window, *self.columns) for side in (left, right))
        right = right.select(*(F.col(name).alias(f"r_{name}") for name in right.columns))
        return left.join(right, F.expr(condition), how)

    def _grouped(self, spark: SparkSession, rows: DataFrame) -> DataFrame:
        keys = [F.expr(key).alias(f"k{i}") for i, key in enumerate(self.keys)]
        if self.window:
            keys.insert(0, F.window("ts", *self.window).alias("window"))
        if self.gap:
            keys.insert(0, F.expr(f"session_window(ts, {self.gap})").alias("window"))
        calls = [F.expr(call).alias(f"a{i}") for i, call in enumerate(self.aggregates)]
        names = [f"k{i}" for i in range(len(self.keys))]
        if self.grouping.startswith("dropDuplicates"):
            deduplicated: DataFrame = getattr(rows.select(*keys, *calls), self.grouping)(names)
            return deduplicated
        if calls:
            grouped: DataFrame = getattr(rows, self.grouping)(*keys).agg(*calls)
            return grouped
        rows.select(*keys).createOrReplaceTempView("rows_of_keys")
        of_window = ["window"] if self.window else []
        text = ", ".join([*of_window, *names])
        return spark.sql(f"SELECT {text} FROM rows_of_keys GROUP BY {text}")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"seed {self.seed}: {self.cell}"
        for name, value in self.conf:
            yield f"  conf {name}={value}"
        for number, source in enumerate(self.sources):
            yield f"  source {number}: withWatermark('ts', {source.delay!r})"
            for index, batch in enumerate(source.batches):
                for file in batch:
                    yield f"    batch {index}, a file of {len(file)} rows"
                    yield from (f"      {self._row(row)}" for row in file)
        yield f"  sink: {self.sink}"
        yield f"  names of columns: {self.spelling}"
        yield from (f"  files are in folders of a column {name}" for name in self._folders())
        yield "  runs: " + ", ".join(f"{run.how} {run.batches} {dict(run.conf) or ''}".rstrip() for run in self.runs)
        if self.crash is not None:
            yield f"  the sink fails once in batch {self.crash}"
        for title, steps in (("before the watermark", self.before), ("after it", self.after)):
            yield from (f"  {title}: {step}" for step in steps)
        if self.join:
            yield "  {} join ON {}".format(*self.join)
        yield f"  {self.grouping}(window={self.gap or self.window}, {', '.join(self.keys)}), {self.mode} mode"
        yield f"  agg({', '.join(self.aggregates)})"
        if self.upper:
            yield "  window({}, {}) over it".format(*self.upper)
        yield from (f"  above: {step}" for step in self.above)

    def _row(self, row: Row) -> str:
        time = "null" if row[0] is None else (EPOCH + timedelta(microseconds=row[0])).isoformat()
        return ", ".join([time, *(f"{name}={value!r}" for name, value in zip(self.columns, row[1:], strict=True))])


def columns_in(steps: Iterable[Step], expressions: Iterable[str]) -> tuple[str, ...]:
    """Columns of the files that a query reads."""
    text = " ".join([*expressions, *(argument for step in steps for argument in step)])
    return tuple(sorted(set(re.findall(r"(?:\b|_)([kv]_[a-z]+)\b", text))))


def _apply(spark: SparkSession, rows: DataFrame, steps: tuple[Step, ...], number: int = 0) -> DataFrame:
    """`number`: of the source; Spark wants names of metrics that differ."""
    for kind, *arguments in steps:
        if kind == "where":
            rows = rows.where(arguments[0])
        elif kind == "with":
            rows = rows.withColumn(arguments[0], F.expr(arguments[1]))
        elif kind == "select":
            rows = rows.selectExpr(*arguments)
        elif kind == "unique":
            rows = rows.dropDuplicates()
        elif kind == "top":
            rows = rows.orderBy(*_ordered(rows)).limit(int(arguments[0]))
        elif kind == "static":
            rows = _joined_with_static(spark, rows, *arguments)
        elif kind == "repartition":
            number, *keys = arguments
            rows = rows.repartition(*([int(number)] if number else []), *keys)
        elif kind == "frames":
            rows = rows.groupBy(*arguments).applyInPandas(_counted, "n long")
        elif kind == "limit":
            rows = rows.limit(int(arguments[0]))
        elif kind == "sort":
            rows = rows.orderBy(*_ordered(rows))
        elif kind == "udf":
            rows = rows.where(_kept_by_python(arguments[0]))
        elif kind == "explode":
            rows = rows.withColumn("copy", F.expr(f"explode({arguments[0]})")).drop("copy")
        elif kind == "observe":
            name, *metrics = arguments
            rows = rows.observe(f"{name}{number}", *(F.expr(f"{text} AS m{i}") for i, text in enumerate(metrics)))
        else:
            how, key, table = arguments
            static = spark.sql(TABLES[table]).hint("broadcast" if kind == "join" else "merge")
            rows = rows.join(static, F.expr(f"{key} = j"), how).drop("j")
    return rows


def _joined_with_static(
    spark: SparkSession, rows: DataFrame, hint: str, how: str, condition: str, table: str
) -> DataFrame:
    static = spark.sql(f"SELECT * FROM VALUES {table}").hint(hint)
    joined = static.join(rows, F.expr(condition), how) if how == "right" else rows.join(static, F.expr(condition), how)
    return joined.drop(*(name for name in static.columns if name != "name"))


def _ordered(rows: DataFrame) -> list[str]:
    return [name for name, kind in rows.dtypes if "map<" not in kind]  # the keys among them


def _counted(frame: Any) -> Any:
    return type(frame)({"n": [len(frame)]})


def _kept_by_python(column: str) -> Column:
    """Most values of a column; null too."""
    kept: Column = F.udf(lambda value: len(repr(value)) % 5 != 1, "boolean")(column)
    return kept
