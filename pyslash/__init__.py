"""pyslash: PySpark's stateful streaming queries without a shuffle and without a state store.

    import pyslash
    pyslash.enable(spark)            # or spark.plugins=io.pyslash.SlashPlugin, and no line of code

Queries that pyslash covers then keep partial state where their rows are, and merge it when they emit it. All others
run on plain Spark, and `explain` says why.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyslash.processor import check_processor

if TYPE_CHECKING:
    from pyslash.api.backfill import backfill
    from pyslash.api.enable import disable, enable
    from pyslash.api.explain import explain
    from pyslash.api.progress import progress
    from pyslash.api.state import register_state

check_processor()

__version__ = "0.1.0"

__all__ = ["__version__", "backfill", "disable", "enable", "explain", "progress", "register_state"]

# What users call is loaded when it is first used: an agent and a Python worker import pyslash, and need no PySpark.
_HOMES = {
    "backfill": "backfill",
    "disable": "enable",
    "enable": "enable",
    "explain": "explain",
    "progress": "progress",
    "register_state": "state",
}


if not TYPE_CHECKING:  # which would take every name for one of these

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"pyslash.api.{_HOMES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
