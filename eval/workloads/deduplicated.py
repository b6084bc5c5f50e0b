"""The first row of each key, or of each key and second: state that is keys and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from eval.workloads.aggregate import Aggregate
from eval.workloads.base import timestamps
from eval.workloads.query import Query


@dataclass(frozen=True)
class Deduplicated(Aggregate):
    """`by_time`: the event time, in whole seconds, is one of the keys, and state is dropped as the stream advances."""

    name: ClassVar[str] = "deduplicated"

    by_time: bool = False

    @property
    def is_judged_by_stream(self) -> bool:
        """A row comes in the micro-batch in which its key is new."""
        return True

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns ts (timestamp), key (bigint), value (bigint); rows of one key have one value."""
        rows = super().table(generator, event_time)
        key = rows["key"].to_numpy()
        return pa.table({"ts": timestamps(event_time // 1_000_000 * 1_000_000), "key": key, "value": key * 7})

    @property
    def statement(self) -> Query:
        """`dropDuplicates(["key"])` or `dropDuplicates(["key", "ts"])`."""
        time = ("ts",) if self.by_time else ()
        return Query(time="ts", select=("key", "value", *time), unique=("key", *time))
