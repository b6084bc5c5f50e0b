"""A thread that works for a query between and beside its micro-batches, as long as there is something to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

_SECONDS = 0.5


class BackgroundTask:
    """Calls `step` now and then until it says that nothing is left to do; `wake` has it begin again."""

    def __init__(
        self, step: Callable[[], bool], name: str, warn: Callable[[Exception], None], seconds: float = _SECONDS
    ) -> None:
        """`name` is that of the thread; `warn` tells of a step that has failed; `seconds` pass before each."""
        self._step = step
        self._seconds = seconds
        self._name = name
        self._warn = warn
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_woken = False

    def wake(self) -> None:
        """There is something to do, or may be."""
        with self._lock:
            self._is_woken = True
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """No further step begins."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._seconds):
            self._is_woken = False
            try:
                again = self._step()
            except Exception as error:  # the query's own thread meets the cause, if it lasts
                self._warn(error)
                again = False
            with self._lock:
                if not (again or self._is_woken):
                    self._thread = None
                    return
