"""A batch engine's runner: one query over all files of a workload, timed with its result dropped, or compared."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pyarrow as pa

from eval import oracle
from eval.refusal import CannotRunError
from eval.steady import Steady
from eval.workloads import Workload
from eval.workloads.query import WINDOW_COLUMNS


class BatchRunner(ABC):
    """What is left to say is how the query is built and run."""

    def run(self, workload: Workload, folder: Path) -> dict[str, Any]:
        """Compute every row of the result and drop it."""
        began = time.perf_counter()
        self.drop(workload, folder)
        seconds = time.perf_counter() - began
        return {"rows": workload.rows, "seconds": seconds, "rows_per_second": workload.rows / seconds}

    def steady(self, workload: Workload, folder: Path, rule: Steady) -> dict[str, Any]:
        """A batch has no steady part.

        Raises:
            CannotRunError: always.
        """
        raise CannotRunError("a batch query has no steady part")

    def check(self, workload: Workload, folder: Path) -> tuple[bool, int]:
        """Compare the windows that the oracle has; a batch query gives those that are still open, too."""
        rows = oracle.expected(folder)
        result = with_times(self.result(workload, folder), workload)
        return oracle.same_rows(oracle.closed(result, rows), rows), rows.num_rows

    @abstractmethod
    def drop(self, workload: Workload, folder: Path) -> None:
        """Run the query."""

    @abstractmethod
    def result(self, workload: Workload, folder: Path) -> pa.Table:
        """The query's rows; of a windowed one without the window's columns, but `pane`: its start in slides."""

    def close(self) -> None:  # noqa: B027 - most have nothing
        """Give everything back."""


def with_times(result: pa.Table, workload: Workload) -> pa.Table:
    """The columns of the query's result: `pane` as the window's start and end."""
    query = workload.statement
    if query.windowed:
        pane = result["pane"].to_numpy().astype("int64") * query.slide_s * 1_000_000
        for name, offset in zip(WINDOW_COLUMNS, (0, query.window_s * 1_000_000), strict=True):
            result = result.append_column(name, pa.array(pane + offset).cast(oracle.UTC))
    return result.select(list(query.columns))
