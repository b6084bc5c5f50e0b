"""What jobs do with a micro-batch's rows. A worker beside a Spark Connect server imports it, so it needs little."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SinkFailedError(Exception):
    """What the job's function raises where a case has it fail."""


class FunctionOfClient:
    """The job's function where a client of Spark Connect has it: it runs in a process beside the server."""

    def __init__(self, work: str, crash: int | None) -> None:
        self._work, self._crash = work, crash

    def __call__(self, rows: DataFrame, batch: int) -> None:
        folder = Path(self._work) / "calls"
        folder.mkdir(exist_ok=True)
        found = [plain(row) for row in rows.collect()]
        call = len(list(folder.iterdir()))
        (folder / f"{call:04d}").write_bytes(pickle.dumps((batch, rows.schema.simpleString(), found)))
        if batch == self._crash:
            with suppress(FileExistsError):
                (Path(self._work) / "crashed").touch(exist_ok=False)
                raise SinkFailedError(f"the sink of batch {batch}")

    @staticmethod
    def calls(work: Path) -> list[tuple[int, str, list[tuple[Any, ...]]]]:
        """Of all runs of a query."""
        return [pickle.loads(path.read_bytes()) for path in sorted(work.glob("calls/*"))]


def plain(value: Any) -> Any:
    """A row as tuples, whose `repr` does not depend on the engine."""
    if isinstance(value, dict):
        return tuple(plain(item) for item in value.values())
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return bytes(value) if isinstance(value, bytearray) else value
