"""What clients of a Spark Connect server ask by `pyslash.connect`, and where the answers are."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyslash.driver.start.explanation import explanation_of
from pyslash.driver.start.plugin import FiguresCallback, told_of_failure
from pyslash.errors import SlashError, UnsupportedQueryError
from pyslash.inspect.state import source


class QuestionsCallback:
    """The questions, as py4j calls it."""

    def __init__(self, context: SparkContext) -> None:
        """`context`: the application's, as this process sees it."""
        self._context = context

    def accept(self, java: Any) -> None:
        """Answer the JVM's `Question`. The name is the Java interface's."""
        spark = SparkSession(self._context, java.session())
        try:
            java.answer(_answer(str(java.kind()), spark, dict(java.words()), java.rows()))
        except (SlashError, PySparkException) as error:
            java.refuse(f"{type(error).__name__}: {error}")
        except Exception as error:
            java.refuse(told_of_failure(error))

    class Java:
        """The interface that py4j implements with this class."""

        implements = ("java.util.function.Consumer",)


def _answer(kind: str, spark: SparkSession, words: dict[str, str], rows: Any) -> Any:
    """A text, or a dataset of the JVM. `rows`: the dataset that is asked about, or None."""
    if kind == "explain":
        return explanation_of(DataFrame(rows, spark), words["output_mode"])
    if kind == "progress":
        return FiguresCallback().apply(words["run"]) or "[]"
    if kind == "state":
        source.register(spark)
        return spark.read.format("slash-state").options(**words).load()._jdf
    raise UnsupportedQueryError(f"this server's pyslash does not know what {kind} is: install the same pyslash on both")
