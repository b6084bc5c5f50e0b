"""Why a query is not covered: every reason there is, what of a query it is about, and what would help.

A reason is raised where it is found, by `Uncovered` in Python or `OnlySpark` in the JVM, in words that tell the query's
own names; `REASONS` has each one's words with `{}` for those names. A test holds the table against the sources, and
`docs/fallbacks.md` is printed from it (`pyslash coverage --reasons`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


class Uncovered(Exception):
    """A query, or a part of it, that runs on plain Spark; `str()` is the reason as a user reads it.

    `operator` is the operator of Spark's plan that it is about, where it is about one.
    """

    operator: str | None = None


@dataclass(frozen=True)
class Reason:
    """Words of a reason, `{}` for what the query tells; what it is about; what would help."""

    words: str
    about: str
    help: str

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, self.words.split("{}"))), re.DOTALL)

    def fits(self, text: str) -> bool:
        """Whether this reason has been raised with that text."""
        return self._pattern.fullmatch(text) is not None

    @property
    def certainty(self) -> int:
        """Of two that fit, the one with more words is meant."""
        return len(self.words)


@dataclass(frozen=True)
class Fallback:
    """A query on plain Spark.

    `has_state`: it has state that pyslash could have kept, so that users would like to know.
    """

    reason: str
    operator: str
    help: str
    has_state: bool = True

    def __str__(self) -> str:
        """One line, for the log."""
        return f"{self.reason} (operator: {self.operator}). What would help: {self.help}"


_QUERY, _CHECKPOINT, _SETTINGS = "query", "checkpoint", "settings"
_AGGREGATION, _FUNCTION, _SESSION = "aggregation", "aggregate function", "session window"
_DEDUPLICATION, _JOIN, _ANY = "deduplication", "join of two streams", "any stateful operator"
_PROCESSOR = "processor in Python"

_STATELESS = "it has no stateful operator: there is no state to keep"
_BATCH = "it is not a streaming DataFrame"
_NO_STATE = (_STATELESS, _BATCH)

_TYPE = "cast the column to a type that is covered, or leave it out of the keys and aggregates (docs/coverage.md)"
_DETERMINISTIC = "compute the value before the stream is written to its source, or use a deterministic expression"
_ONE_WINDOW = "have all branches of the union make the same window, or group the union by a window made above it"
_REPORT = "report the query's plan (`df.explain()`): this release of Spark plans it in a way that pyslash does not know"
_ADOPT = "spark.slash.adopt=true, or a new checkpointLocation, where the query reads its sources from the start"
_STAY = (
    "nothing is needed: plain Spark continues with its state; with a new checkpointLocation pyslash runs the query, "
    "from the start of its sources"
)
_WATERMARK_COLUMN = "call withWatermark() on a column of the stream, and keep that column in what follows"

REASONS = (
    Reason(_BATCH, _QUERY, "a query with `readStream`; batch queries have no state"),
    Reason(_STATELESS, _QUERY, "nothing is needed: Spark runs such a query without a shuffle or a state store"),
    Reason(
        "Spark does not plan it: {}", _QUERY, "change the query as Spark's message says; Spark does not run it either"
    ),
    Reason("its plan is not understood: {}", _QUERY, _REPORT),
    Reason("its plan cannot be read: {}", _QUERY, "an installation with its jar: a wheel, or a build with a JDK"),
    Reason("the trigger {} is not covered", _QUERY, "a trigger of processing time, `availableNow` or `once`"),
    Reason(
        "a row has too many windows for a query with several stateful operators",
        _QUERY,
        "a longer slide, or a query of its own for the sliding window",
    ),
    Reason(
        "limits of a stream's own rows stay on Spark: all of their state is one count",
        _QUERY,
        "nothing is needed where that is all; a limit above other stateful operators is covered",
    ),
    Reason("{}: this stateful operator is not covered yet", _QUERY, "an operator that is covered (docs/coverage.md)"),
    Reason(
        "this micro-batch is planned with {}",
        _QUERY,
        "settings of adaptive execution and of the planner that stay the same while the query runs",
    ),
    Reason(
        "its checkpoint {} holds state of plain Spark; spark.slash.adopt=true moves it to pyslash",
        _CHECKPOINT,
        _ADOPT,
    ),
    Reason(
        "spark.slash.adopt=true moves state into the checkpoint, and spark.slash.durability={} keeps none there",
        _CHECKPOINT,
        "spark.slash.durability=checkpoint",
    ),
    Reason(
        "spark.slash.adopt=true moves the state of one operator, in one step, and this query has several with state",
        _CHECKPOINT,
        _STAY,
    ),
    Reason(
        "the state of a join cannot be moved between plain Spark and pyslash: pyslash also keeps in which "
        "micro-batch a row came, which Spark does not",
        _CHECKPOINT,
        _STAY,
    ),
    Reason(
        "the state of a session window cannot be moved between plain Spark and pyslash: pyslash keeps the parts of "
        "a session, of which Spark keeps one sum",
        _CHECKPOINT,
        _STAY,
    ),
    Reason(
        "the state of a deduplication within the watermark cannot be moved between plain Spark and pyslash: "
        "pyslash keeps rows in panes of the time that they expire at, of which Spark keeps the times",
        _CHECKPOINT,
        _STAY,
    ),
    Reason(
        "plain Spark has state of the variable {}, which the processor does not declare, and which is not moved. "
        "Declare it, or delete it by deleteIfExists",
        _CHECKPOINT,
        "the variable declared, or deleted, until pyslash has the state",
    ),
    Reason(
        "plain Spark has kept state of the variable {}, which its last start did not declare, so that it cannot be "
        "read. Start plain Spark once with it declared, or delete it by deleteIfExists",
        _CHECKPOINT,
        "a start of plain Spark with the variable declared, or an `init` that deletes it",
    ),
    Reason(
        "plain Spark has state of the variable {} as {}, and the processor declares {}",
        _CHECKPOINT,
        "the same declaration as before; change it once pyslash has the state",
    ),
    Reason(
        "plain Spark has state of {}, and the function declares another one",
        _CHECKPOINT,
        "the same schema as before",
    ),
    Reason(
        "the state of groups by the event time itself cannot be moved between plain Spark and pyslash: pyslash keeps "
        "panes of many moments, and some of those were emitted",
        _CHECKPOINT,
        _STAY,
    ),
    Reason(
        "the state of sliding windows cannot be moved between plain Spark and pyslash: pyslash keeps the slices "
        "that windows are made of, and Spark's buffers are of whole windows",
        _CHECKPOINT,
        _STAY,
    ),
    Reason("the state of {} cannot be moved between plain Spark and pyslash: {}", _CHECKPOINT, _STAY),
    Reason("values of its state cannot be moved from plain Spark to pyslash: {}", _CHECKPOINT, _STAY),
    Reason(
        "plain Spark has noted the aggregates of the query's first start, {}, and takes no others: the query's have "
        "changed since, or it is another one ({})",
        _CHECKPOINT,
        "the aggregates that the query first started with",
    ),
    Reason(
        "the state that plain Spark has is of another query, or in another form: {}, not {}",
        _CHECKPOINT,
        "the query as it was when it wrote the checkpoint",
    ),
    Reason("plain Spark has the state of {}, and that of one operator moves, in one step", _CHECKPOINT, _STAY),
    Reason("Spark does not read its own state in {}: {}", _CHECKPOINT, "a checkpoint that Spark itself can read"),
    Reason(
        "its checkpoint {} holds state of plain Spark, which continues with it",
        _CHECKPOINT,
        "a new checkpointLocation; the query then reads its sources from the start",
    ),
    Reason("its checkpoint {} cannot be reached: {}", _CHECKPOINT, "a location that the driver can read and write"),
    Reason(
        "its checkpoint cannot hold state of pyslash: {}",
        _CHECKPOINT,
        "credentials and libraries with which pyarrow writes there, another location, or "
        "spark.slash.durability=replica",
    ),
    Reason(
        "spark.slash.strategy=repartition brings rows of several tasks together, and with "
        "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition=true a row is late or not by the rows "
        "of its "
        "own task; set one of them otherwise",
        _SETTINGS,
        "spark.slash.strategy=merge, or Spark's setting off",
    ),
    Reason(
        "{}=true, and pyslash does not encrypt partial state on its way between hosts: on networks that need it, let "
        "the "
        "hosts encrypt what they send each other (IPsec, WireGuard) and turn it off",
        _SETTINGS,
        "encryption between hosts (IPsec, WireGuard) instead of Spark's",
    ),
    Reason(
        "spark.io.encryption.enabled=true, and pyslash does not encrypt partial state that it spills to disk; with "
        "spark.slash.spill.maxBytes=0 it spills nothing",
        _SETTINGS,
        "spark.slash.spill.maxBytes=0",
    ),
    Reason(
        "{} is {}, which pyslash leaves to Spark: {}",
        _SETTINGS,
        "the default of that setting of Spark's (docs/settings.md)",
    ),
    Reason(
        "in append mode it has to group by a time window()", _AGGREGATION, "update or complete mode, or a time window"
    ),
    Reason(
        "the window's time column carries no watermark: call withWatermark() on it",
        _AGGREGATION,
        "withWatermark() on the time column, before groupBy",
    ),
    Reason(
        "it groups by the event time itself beside windows of which a row has so many",
        _AGGREGATION,
        "a longer slide, or the windows alone",
    ),
    Reason(
        "the window is of {}, which is one moment for all rows of a micro-batch",
        _AGGREGATION,
        "a window of a column of the rows, or withWatermark() on the column of the current time",
    ),
    Reason("it groups by more than one event time", _AGGREGATION, "one event time among the grouping expressions"),
    Reason("it groups by more than one window", _AGGREGATION, "one window a query; a second query for the other"),
    Reason(
        "there is no time window() among the grouping expressions, though there is one below",
        _AGGREGATION,
        "the window as a grouping expression as it is, not a part of it or an expression of it",
    ),
    Reason(
        "there is no time window() among the grouping expressions",
        _AGGREGATION,
        "the window as a grouping expression as it is, not a part of it or an expression of it",
    ),
    Reason(
        "{} reads the window itself; only the result may", _AGGREGATION, "compute with the window after the aggregation"
    ),
    Reason("the branches of a union have their windows in different columns", _AGGREGATION, _ONE_WINDOW),
    Reason("the branches of a union have different windows", _AGGREGATION, _ONE_WINDOW),
    Reason("a branch of a union reads the window", _AGGREGATION, "filter by the window after the aggregation"),
    Reason("a filter above a union reads the session of a row", _AGGREGATION, "filter sessions after the aggregation"),
    Reason(
        "the filter {} under the aggregation reads the window and other columns",
        _AGGREGATION,
        "split the filter: one of the window alone, one of the other columns",
    ),
    Reason(
        "the filter {} under the aggregation reads the window, and changes with the micro-batch",
        _AGGREGATION,
        "a longer slide, so that a row has at most 64 windows; or the filter above the aggregation",
    ),
    Reason(
        "grouping sets, cube and rollup of windows of which a row has so many are not covered",
        _AGGREGATION,
        "a longer slide, so that a row has at most 64 windows; or a query for each grouping",
    ),
    Reason(
        "the window() expression is not one that this version of pyslash understands",
        _AGGREGATION,
        "window() or session_window() of the event time, with constant lengths",
    ),
    Reason("the state of {} is not used by an aggregation", _AGGREGATION, _REPORT),
    Reason("the aggregation is planned with {}", _AGGREGATION, _REPORT),
    Reason("{} over the type {} is not covered yet", _FUNCTION, "cast its argument to a number or a decimal"),
    Reason("{} keeps more registers than are covered yet", _FUNCTION, "an error of 0.0022 or more"),
    Reason(
        "DISTINCT in {} is not covered yet",
        _FUNCTION,
        "approx_count_distinct, or dropDuplicates before the aggregation",
    ),
    Reason(
        "{} of a rollup or cube of a window would gather buffers of Spark's own code, as no watermark ends its totals",
        _FUNCTION,
        "a query for the windows and another one for the totals, or a function with a native form (docs/coverage.md)",
    ),
    Reason("{} is over an expression that is not deterministic", _FUNCTION, _DETERMINISTIC),
    Reason(
        "{} divides by zero where a column has one value only, in this release of Spark",
        _FUNCTION,
        "a later release of Spark, or the function from its sums (covar_pop, var_pop)",
    ),
    Reason("{} confuses its columns in this release of Spark", _FUNCTION, "a later release of Spark, or corr squared"),
    Reason("sessions have no update mode, in Spark either", _SESSION, "append or complete mode"),
    Reason(
        "{} of a session depends on the order in which Spark merges its rows",
        _SESSION,
        "min_by or max_by with the event time, which tell first and last",
    ),
    Reason("{} of a session has no native form", _SESSION, "a function with a native form (docs/coverage.md)"),
    Reason("grouping sets, cube and rollup of sessions are not covered", _SESSION, "a query for each grouping"),
    Reason(
        "a key is a float or double, whose zeros and NaNs Spark before 4.3 tells apart",
        _DEDUPLICATION,
        "a key of another type (a decimal or a string), or Spark 4.3",
    ),
    Reason("its event time is the time window {}", _DEDUPLICATION, "dropDuplicates before the window"),
    Reason("its input has more than one event time", _DEDUPLICATION, "one event time among its columns: select it"),
    Reason("this micro-batch joins {}, and the query began with {}", _JOIN, "sources whose schema does not change"),
    Reason("its condition is not deterministic: {}", _JOIN, _DETERMINISTIC),
    Reason("its condition has a subquery: {}", _JOIN, "a join with the subquery's result before this one"),
    Reason("it is a join of another type: {}", _JOIN, "an inner, left, right, full outer or left semi join"),
    Reason(
        "Spark does not evict its rows as the watermark moves: {}",
        _JOIN,
        "a condition that bounds one side's event time by the other's, plus or minus a constant interval",
    ),
    Reason(
        "Spark evicts rows by another time than their condition bounds: {}",
        _JOIN,
        "a condition that bounds one side's event time by the other's, plus or minus a constant interval",
    ),
    Reason("it evicts rows in a way that is not known: {}", _JOIN, _REPORT),
    Reason("one of its sides has more than one event time", _JOIN, "one event time on each side: select it"),
    Reason("a processor in Python is covered from Spark 4.3 on", _PROCESSOR, "Spark 4.3"),
    Reason(
        "a processor in Python runs on plain Spark by spark.slash.processors=off",
        _PROCESSOR,
        "spark.slash.processors=on, for a query that may be started again from its sources",
    ),
    Reason(
        "a processor that reads a broadcast variable is not covered yet",
        _PROCESSOR,
        "the value itself, as a field of the processor",
    ),
    Reason(
        "its processor is so large that PySpark broadcasts it",
        _PROCESSOR,
        "a file that the processor's init reads, instead of data within the processor",
    ),
    Reason("PySpark runs its processor by {}, which is not known", _PROCESSOR, _REPORT),
    Reason("Spark does not bring its rows together by a shuffle and a sort: {}", _PROCESSOR, _REPORT),
    Reason(
        "the init of its processor fails in the driver: {}: {}",
        _PROCESSOR,
        "an init that declares and deletes variables, and does not read state",
    ),
    Reason(
        "its function cannot be read in the driver: {}: {}",
        _PROCESSOR,
        "modules that the driver's Python has, too",
    ),
    Reason("its processor declares a variable twice", _PROCESSOR, "another name; Spark does not run it either"),
    Reason(
        "its processor declares the variable {}, which it deletes in each micro-batch",
        _PROCESSOR,
        "an init that deletes what it does not declare",
    ),
    Reason(
        "the time to live of {} is one that Spark refuses",
        _PROCESSOR,
        "a positive one, with timers by processing time; Spark does not run it either",
    ),
    Reason(
        "{} {} is a {}, which is not kept yet",
        _PROCESSOR,
        "booleans, integers, strings, binaries, dates and timestamps; in values floating-point numbers, too, and but "
        "for a group state decimals, arrays and structs",
    ),
    Reason("a processor's key {} is a {}, which is not kept yet", _PROCESSOR, "a key of integers, strings or dates"),
    Reason("a processor's input has more than one event time", _PROCESSOR, "one event time: select it"),
    Reason("a processor's event time is the time window {}", _PROCESSOR, "transformWithState before the window"),
    Reason("its watermark is of {}, which is no column", _ANY, _WATERMARK_COLUMN),
    Reason("its watermark is of {}, which its rows have not", _ANY, _WATERMARK_COLUMN),
    Reason(
        "{} may be null in this micro-batch, and was never null when the query began",
        _ANY,
        "a schema that says the column may be null, for sources that give nulls later",
    ),
    Reason(
        "this micro-batch is optimized to {}, and the query began with {}",
        _ANY,
        "spark.sql.optimizer.excludedRules=org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation, which has "
        "Spark keep the branches of a union that have no new rows; without it, plain Spark's own rows are wrong here",
    ),
    Reason("{} is not deterministic", _ANY, _DETERMINISTIC),
    Reason("the type {} of {} is not covered yet", _ANY, _TYPE),
)

_FAILED = "the first epoch failed, and nothing had been kept yet"
_FAILED_HELP = "what the error says; `pyslash doctor` checks a machine, spark.slash.mode=require makes it an error"


def fallback_of(error: Exception) -> Fallback:
    """What to tell users of a query that this error leaves to plain Spark."""
    text = str(error)
    fitting = [reason for reason in REASONS if reason.fits(text)] if isinstance(error, Uncovered) else []
    if not fitting:
        return Fallback(f"{_FAILED}: {text or type(error).__name__}", _QUERY, _FAILED_HELP)
    reason = max(fitting, key=lambda one: one.certainty)
    operator = error.operator if isinstance(error, Uncovered) and error.operator else reason.about
    return Fallback(text, operator, reason.help, reason.words not in _NO_STATE)


def page() -> str:
    """All reasons, as Markdown."""
    lines = [
        "# Why a query runs on plain Spark",
        "",
        "Every reason that pyslash has, by the part of a query that it is about, printed from the code by",
        "`pyslash coverage --reasons`; `…` stands for the query's own names. `pyslash.explain(df)`, the tab",
        '"Slash" of the Spark UI and the log give the reason of a query, and the metric `fallbacks` counts such',
        "queries ([ui.md](ui.md)). With `spark.slash.mode=require` it is an error.",
    ]
    for about in dict.fromkeys(reason.about for reason in REASONS):
        lines += ["", f"## {about[0].upper()}{about[1:]}", "", "| reason | what would help |", "| --- | --- |"]
        lines += [
            f"| {_cell(reason.words.replace('{}', '…'))} | {_cell(reason.help)} |"
            for reason in REASONS
            if reason.about == about
        ]
    lines += [
        "",
        "## Failures",
        "",
        "| reason | what would help |",
        "| --- | --- |",
        f"| {_FAILED}: … | {_FAILED_HELP} |",
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
