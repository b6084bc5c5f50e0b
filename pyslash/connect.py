"""pyslash for clients of Spark Connect, which have no JVM: they ask the server, which has pyslash by its plugin.

    from pyslash import connect
    connect.explain(df)
    connect.progress(query)
    connect.state(spark, checkpoint).show()

A question is a relation of Spark Connect's protocol, of a kind that Spark leaves to plugins, and its rows are the
answer. `io.pyslash.connect.ClientQuestions` reads it in the server. This module needs what `pyspark-client` brings, and
no native code.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from pyslash import errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_PACKAGE = "pyslash.connect.v1"
_NO_PLUGIN = "No handler found for extension"


def explain(df: DataFrame, output_mode: str = "append") -> str:
    """Whether the server's pyslash covers a streaming DataFrame in an output mode: how it runs, or why not.

    Raises:
        InvalidInputError: there is no such output mode.
        UnsupportedQueryError: the server has no pyslash, or another version of it.
    """
    client: Any = df
    rows = client._plan.plan(client.sparkSession.client).SerializeToString()
    return _text(client.sparkSession, "explain", {"output_mode": output_mode}, rows)


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """Figures of the last epochs of a query, as `pyslash.progress` gives them in the server.

    Raises:
        UnsupportedQueryError: the server has no pyslash, or another version of it.
    """
    client: Any = query
    found: list[dict[str, Any]] = json.loads(_text(client._session, "progress", {"run": str(query.runId)}))
    return found


def state(spark: SparkSession, checkpoint: str = "", **options: str | int) -> DataFrame:
    """The state of a query, running or not, as `spark.read.format("slash-state")` gives it in the server.

    Args:
        spark: a Spark Connect session.
        checkpoint: the query's `checkpointLocation`, as the server sees it; nothing, if there is the option `query`.
        options: of that format: `query` (an id or a name), `epoch`, `savepoint`, `operator`, `partitions`.

    Returns:
        Start and end of the window, keys and aggregates.

    Raises:
        SlashError: it cannot be read; the message says why.
    """
    words = ({"path": checkpoint} if checkpoint else {}) | {name: str(value) for name, value in options.items()}
    table = _asked(spark, "state", words)
    try:
        assert table.columns  # the server is asked for them now, and not when the rows are
    except Exception as error:
        raise _told(error) from None
    return table


def is_clients(of: object) -> bool:
    """Whether a session, a DataFrame or a query is one of Spark Connect's."""
    return any(base.__module__.startswith("pyspark.sql.connect.") for base in type(of).__mro__)


def _text(spark: Any, kind: str, words: dict[str, str], rows: bytes | None = None) -> str:
    try:
        return str(_asked(spark, kind, words, rows).collect()[0][0])
    except Exception as error:
        raise _told(error) from None


def _asked(spark: Any, kind: str, words: dict[str, str], rows: bytes | None = None) -> Any:
    """The DataFrame whose rows are the answer."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    question = _question_type()(kind=kind, words=words, rows=[] if rows is None else [rows])

    class Question(LogicalPlan):  # type: ignore[misc]
        def plan(self, session: Any) -> Any:
            relation = self._create_proto_relation()
            relation.extension.Pack(question)
            return relation

    return DataFrame(Question(None), spark)


@cache
def _question_type() -> Any:
    """The message `Question`: string kind = 1; map<string, string> words = 2; repeated bytes rows = 3.

    `rows` is a relation of Spark Connect. A change that old servers do not understand is a package `v2`.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="pyslash/connect/v1.proto", package=_PACKAGE, syntax="proto3")
    message = file.message_type.add(name="Question")
    word = message.nested_type.add(name="WordsEntry")
    word.options.map_entry = True
    one, many, text = field.LABEL_OPTIONAL, field.LABEL_REPEATED, field.TYPE_STRING
    word.field.add(name="key", number=1, type=text, label=one)
    word.field.add(name="value", number=2, type=text, label=one)
    message.field.add(name="kind", number=1, type=text, label=one)
    entries = f".{_PACKAGE}.Question.WordsEntry"
    message.field.add(name="words", number=2, type=field.TYPE_MESSAGE, type_name=entries, label=many)
    message.field.add(name="rows", number=3, type=field.TYPE_BYTES, label=many)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Question"))


def _told(error: Exception) -> Exception:
    """The error as the server's pyslash has named it; another one as it is."""
    words = str(error)
    if _NO_PLUGIN in words:
        return errors.UnsupportedQueryError(
            "the Spark Connect server has no pyslash: switch it on there, by spark.plugins=io.pyslash.SlashPlugin "
            "(docs/connect.md)"
        )
    named = re.search(r"\b(\w+Error): (.*)", words, re.DOTALL)
    kind = errors.class_of(named[1]) if named is not None else None
    if named is None or kind is None:
        return error
    return kind(re.split(r"\n+ ?(?:SQLSTATE: |JVM stacktrace:)", named[2])[0])
