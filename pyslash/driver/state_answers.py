"""What the Spark UI asks of the state of queries when somebody looks: its size, and which keys have the most of it."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pyslash.errors import SlashError
from pyslash.spark.running_queries import checkpoint_of
from pyslash.state.sizes.state_sizes import HotKey, Limits, StateSizes, sizes_of
from pyslash.state.stored import StoredState

TOP = 20
_LIMITS = Limits(seconds=5, fetched_bytes=64 << 20)
_FRESH_SECONDS = 2


class StateAnswers:
    """Answers one question at a time, as py4j calls it. Who asks again within two seconds gets the same answer."""

    def __init__(self, queries: Path) -> None:
        """`queries`: `running_queries.folder_of`."""
        self._queries = queries
        self._lock = threading.Lock()
        self._last: tuple[float, str, str] = (0, "", "")  # when, the question, the answer

    def apply(self, question: str) -> str:
        """A `StateSizes` or an `error`, as JSON. The name is the Java interface's.

        Args:
            question: JSON with the id of the `query`, the number of the `operator`, and whether it `shows_keys`.
        """
        with self._lock:
            when, asked, answer = self._last
            if asked != question or time.monotonic() - when > _FRESH_SECONDS:
                answer = json.dumps(self._answer(**json.loads(question)))
                self._last = time.monotonic(), question, answer
            return answer

    def _answer(self, query: str, operator: int, shows_keys: bool) -> dict[str, Any]:
        try:
            found = sizes_of(StoredState.of(checkpoint_of(self._queries, query), operator), None, TOP, _LIMITS)
        except SlashError as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return asdict(found if shows_keys else _without_keys(found))

    class Java:
        """The interface that py4j implements with this class."""

        implements = ("java.util.function.Function",)


def _without_keys(sizes: StateSizes) -> StateSizes:
    def hidden(keys: list[HotKey]) -> list[HotKey]:
        return [replace(one, key=[]) for one in keys]

    return replace(sizes, by_rows=hidden(sizes.by_rows), by_bytes=hidden(sizes.by_bytes))
