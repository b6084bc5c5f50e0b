"""`pyslash coverage`: which stateful queries of this Spark run on pyslash, as the code that decides answers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from pyslash.conf import Conf
from pyslash.driver.coverage_check import operators_of
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.reasons import page as reasons_page
from pyslash.spark.spark_settings import page as settings_page

_REFUSED = "Spark does not plan it"
_COLUMNS = (
    "timestamp AS t",
    "value AS v",
    "CAST(value AS double) AS d",
    "CAST(value AS string) AS s",
    "value % 2 = 0 AS b",
    "CAST(CAST(value AS string) AS binary) AS x",
    "array(value) AS a",
    "named_struct('f', value) AS r",
    "map(value, value) AS m",
)
# What an aggregate function may be called with; the first call that Spark understands counts.
_ARGUMENTS = ("v", "d", "s", "b", "x", "d, d", "v, v", "s, v", "v, 0.5", "d, array(0.5D)", "v, 10", "v, 1, 0.5, 7", "")
_MODES = tuple(OutputMode)

Build = Callable[[DataFrame, DataFrame], DataFrame]


@dataclass(frozen=True)
class Verdict:
    """Whether a query runs on pyslash, else the reason; `refused`: Spark does not run it either.

    `in_buffers`: a function of it is computed by Spark's own code.
    """

    covered: bool
    reason: str = ""
    refused: bool = False
    in_buffers: bool = False


def _late(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("t", "10 seconds")


def _counted(rows: DataFrame, *keys: Any) -> DataFrame:
    return rows.groupBy(*keys).count()


def _window(column: str = "t") -> Any:
    return F.window(column, "10 seconds")


def _joined(how: str) -> Build:
    interval = "l.v = r.v AND r.t BETWEEN l.t AND l.t + INTERVAL 5 SECONDS"
    return lambda rows, other: _late(rows).alias("l").join(_late(other).alias("r"), F.expr(interval), how)


def _same(key: Any, state: Any, frames: Any) -> Any:
    yield from frames


class _Same(StatefulProcessor):  # type: ignore[misc]
    """Gives what it gets."""

    def init(self, handle: Any) -> None:
        """No state."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        """The same rows."""
        yield from rows


def _transformed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("v").transformWithState(_Same(), "v bigint", "append", "none")


def _timed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("v").transformWithState(
        _Same(), "v bigint, t timestamp", "append", "eventTime", eventTimeColumnName="t"
    )


# Queries by what a user would call them; the second stream is another one like the first.
QUERIES: dict[str, Build] = {
    "tumbling window": lambda rows, _: _counted(_late(rows), _window(), "v"),
    "sliding window": lambda rows, _: _counted(_late(rows), F.window("t", "10 seconds", "5 seconds"), "v"),
    "window without a watermark": lambda rows, _: _counted(rows, _window(), "v"),
    "session window": lambda rows, _: _counted(_late(rows), F.session_window("t", "10 seconds"), "v"),
    "session window, gap by row": lambda rows, _: _counted(
        _late(rows), F.session_window("t", F.expr("CASE WHEN b THEN '5 seconds' ELSE '10 seconds' END")), "v"
    ),
    "by keys, no window": lambda rows, _: _counted(rows, "v", "s"),
    "one group of all rows": lambda rows, _: _counted(rows),
    "`rollup`": lambda rows, _: rows.rollup("v", "s").count(),
    "`cube`": lambda rows, _: rows.cube("v", "s").count(),
    "`rollup` of a window": lambda rows, _: _late(rows).rollup(_window(), "v").count(),
    "`cube` of a window": lambda rows, _: _late(rows).cube(_window(), "v").count(),
    "`distinct`": lambda rows, _: rows.select("v", "s").distinct(),
    "by the event time itself": lambda rows, _: _counted(_late(rows), "t"),
    "by the windows of an aggregation": lambda rows, _: _counted(_counted(_late(rows), _window(), "v"), "window"),
    "by `window_time` of an aggregation": lambda rows, _: _counted(
        _counted(_late(rows), _window(), "v"), F.window_time("window")
    ),
    "window of `current_timestamp()`": lambda rows, _: _counted(
        rows.withColumn("now", F.current_timestamp()), _window("now"), "v"
    ),
    "by a struct": lambda rows, _: _counted(_late(rows), _window(), "r"),
    "by an array": lambda rows, _: _counted(_late(rows), _window(), "a"),
    "`HAVING`": lambda rows, _: _counted(_late(rows), _window(), "v").where("count > 1"),
    "`orderBy` and `limit` of groups": lambda rows, _: _counted(rows, "v").orderBy("count").limit(3),
    "union of two streams below": lambda rows, other: _counted(_late(rows).union(_late(other)), _window(), "v"),
    "`dropDuplicates`": lambda rows, _: rows.select("v", "s", "d").dropDuplicates(["v"]),
    "`dropDuplicates` with the event time": lambda rows, _: _late(rows.select("t", "v")).dropDuplicates(["v", "t"]),
    "`dropDuplicatesWithinWatermark`": lambda rows, _: _late(rows.select("t", "v")).dropDuplicatesWithinWatermark(
        ["v"]
    ),
    "inner join of two streams": _joined("inner"),
    "outer join of two streams": _joined("leftOuter"),
    "left semi join of two streams": _joined("leftSemi"),
    "windows of windows": lambda rows, _: _counted(
        _counted(_late(rows), _window(), "v").select(F.window_time("window").alias("t"), "count"),
        F.window("t", "1 minute"),
    ),
    "`dropDuplicates`, then a window": lambda rows, _: _counted(
        _late(rows.select("t", "v")).dropDuplicates(["v", "t"]), _window()
    ),
    "join of two streams, then a window": lambda rows, other: _counted(
        _joined("inner")(rows, other).select(F.col("l.t").alias("t")), _window()
    ),
    "latest row of each key, `max_by` of a struct": lambda rows, _: rows.groupBy("v").agg(
        F.max_by(F.struct("t", "s"), "t")
    ),
    "`collect_list` by keys, no window": lambda rows, _: rows.groupBy("v").agg(F.collect_list("s")),
    "`percentile_approx` of a sliding window": lambda rows, _: (
        _late(rows).groupBy(F.window("t", "10 seconds", "5 seconds")).agg(F.percentile_approx("d", 0.95))
    ),
    "`dropDuplicates` by a struct, an array or a window": lambda rows, _: (
        _late(rows).select(_window(), "r", "a", "m").dropDuplicates(["window", "r", "a"])
    ),
    "`limit` of groups": lambda rows, _: _counted(_late(rows), _window(), "v").limit(10),
    "`limit` of rows": lambda rows, _: rows.select("v").limit(10),
    **(
        {
            "`transformWithState`": lambda rows, _: _transformed(rows),
            "`transformWithState` with an initial state": lambda rows, _: rows.groupBy("v").transformWithState(
                _Same(), "v bigint", "append", "none", rows.sparkSession.range(9).groupBy("id")
            ),
            "`transformWithState`, then a window": lambda rows, _: _counted(_timed(_late(rows)), _window(), "v"),
            "`dropDuplicates`, then `transformWithState`": lambda rows, _: _transformed(
                _late(rows.select("t", "v")).dropDuplicates(["v", "t"])
            ),
        }
        if hasattr(GroupedData, "transformWithState")
        else {}  # Spark 4.0 has it over frames alone
    ),
    "`transformWithStateInPandas`": lambda rows, _: rows.groupBy("v").transformWithStateInPandas(
        _Same(), "v bigint", "append", "none"
    ),
    "`applyInPandasWithState`": lambda rows, _: rows.groupBy("v").applyInPandasWithState(
        _same, "v bigint", "n bigint", "append", "NoTimeout"
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "--reasons", action="store_true", help="print all reasons why a query runs on plain Spark instead"
    )
    parser.add_argument("--settings", action="store_true", help="print what Spark's own settings mean instead")


def main(args: argparse.Namespace) -> int:
    """Print the page."""
    if args.reasons:
        print(reasons_page(), end="")
        return 0
    if args.settings:
        print(settings_page(), end="")
        return 0
    builder = SparkSession.builder.master("local[1]").appName("pyslash coverage").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    try:
        print(page(spark), end="")
    finally:
        spark.stop()
    return 0


def page(spark: SparkSession) -> str:
    """What is covered of the queries and of all aggregate functions that this Spark has, as Markdown."""
    with _refusals_unlogged():
        queries, functions = list(_queries(spark)), list(_functions(spark))
    lines = [
        "# What is covered",
        "",
        f"This page is generated from the code that decides, on PySpark {spark.version}. `pyslash coverage` prints it",
        "for your Spark, and `pyslash.explain(df)` decides about your query. What is not covered runs on plain",
        "Spark, for the reason in the last column. [Operators](operators.md) has the details; [Proven](proven.md)",
        "tells which operators have given plain Spark's rows and figures, over which sources.",
        "",
        "## Queries",
        "",
        "| query | append | update | complete | why not |",
        "| --- | --- | --- | --- | --- |",
        *queries,
        "",
        "`-`: Spark does not run such a query either.",
        "",
        "## Aggregate functions",
        "",
        "Each also with `FILTER (WHERE ...)`, and in expressions (`sum(a) / count(*)`).",
        "",
        *functions,
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def _refusals_unlogged() -> Iterator[None]:
    """What Spark refuses is an answer here. PySpark would log each with its stack trace."""
    # Of PySpark's own class, since whoever asks first makes it: another kind would raise where PySpark logs by it.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _queries(spark: SparkSession) -> Iterator[str]:
    for name, build in QUERIES.items():
        verdicts = [_verdict(partial(build, _rows(spark), _rows(spark)), mode) for mode in _MODES]
        cells = ["pyslash" if one.covered else "-" if one.refused else "Spark" for one in verdicts]
        reasons = dict.fromkeys(one.reason for one in verdicts if not one.covered and not one.refused)
        yield f"| {name} | {' | '.join(cells)} | {'; '.join(reasons)} |"


def _functions(spark: SparkSession) -> Iterator[str]:
    native: list[str] = []
    in_buffers: list[str] = []
    others: list[str] = []
    windows = _late(_rows(spark)).groupBy(_window())
    for name in _aggregate_functions(spark):
        verdicts = (_of_function(windows, name, arguments) for arguments in _ARGUMENTS)
        verdict = next((one for one in verdicts if not one.refused), None)
        if verdict is not None:
            found = in_buffers if verdict.in_buffers else native if verdict.covered else others
            found.append(f"`{name}`")
    yield f"Native: {', '.join(native)}."
    yield ""
    yield f"Computed by Spark's own code, in buffers that pyslash keeps: {', '.join(in_buffers)};"
    yield "your own functions; sums and averages of intervals; `max` and `min` of strings with a collation"
    yield "([031](design/031-what-has-no-native-form-keeps-sparks-buffers.md)). Sessions with such functions run on"
    yield "plain Spark."
    yield ""
    yield f"On plain Spark: {', '.join(others)}. Spark runs no `DISTINCT` in a stream."


def _of_function(windows: GroupedData, name: str, arguments: str) -> Verdict:
    return _verdict(lambda: windows.agg(F.expr(f"{name}({arguments})")), OutputMode.APPEND)


def _verdict(build: Callable[[], DataFrame], mode: OutputMode) -> Verdict:
    try:
        rows = build()
        jvm: Any = rows.sparkSession._jvm
        output_mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())()
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), output_mode)
        operators, _ = operators_of(rows, mode, Conf.read(lambda _, default: default))
    except (PySparkException, Py4JJavaError):
        return Verdict(False, refused=True)
    except Uncovered as reason:
        return Verdict(False, str(reason), refused=str(reason).startswith(_REFUSED))
    return Verdict(True, in_buffers=any(operator.has_buffers for operator in operators))


def _rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr(*_COLUMNS)


def _aggregate_functions(spark: SparkSession) -> list[str]:
    """Names of Spark's own, by its registry."""
    catalyst: Any = spark._jvm.org.apache.spark.sql.catalyst
    registry = catalyst.analysis.FunctionRegistry.builtin()
    names = [str(row[0]) for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    found = []
    for name in names:
        known = registry.lookupFunction(catalyst.FunctionIdentifier(name))
        if known.isDefined() and str(known.get().getGroup()) == "agg_funcs":
            found.append(name)
    return sorted(found)
