"""A thread that works for a query between and beside its micro-batches, as long as there is something to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

_SECONDS = 0.5


class BackgroundTask:
    """Calls `step` every half a second until it says that nothing is left to do; `wake` has it begin again."""

    def __init__(self, step: Callable[[], bool], name: str, warn: Callable[[Exception], None]) -> None:
        """`name` is that of the thread; `warn` tells of a step that has failed."""
        self._step = step
        self._name = name
        self._warn = warn
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """There is something to do, or may be."""
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """No further step begins."""
        self._closed.set()

    def _run(self) -> None:
        again = True
        while again and not self._closed.wait(_SECONDS):
            try:
                again = self._step()
            except Exception as error:  # the query's own thread meets the cause, if it lasts
                self._warn(error)
                again = False
        with self._lock:
            self._thread = None
