"""When a query looks for backfills."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyslash.driver.backfilling import Backfilling


def test_an_update_that_is_repeated_takes_again_what_was_discarded() -> None:
    """On a store where a look costs something, which a query does not afford in each micro-batch."""
    looks: list[int] = []

    def due(last: Any, *_: Any) -> list[Any]:
        looks.append(last)
        return []

    backfills: Any = SimpleNamespace(is_local=False, due=due)
    plan: Any = SimpleNamespace(emission=SimpleNamespace(new_only=False))
    manifests: Any = SimpleNamespace(look=None)
    backfilling = Backfilling(backfills, plan, SimpleNamespace(agents=["one"]), manifests)  # type: ignore[arg-type]
    for epoch in (3, 3, 4, 3):
        inputs: Any = SimpleNamespace(epoch=epoch, last=epoch)
        backfilling.take(inputs)
    assert looks == [3, 3, 3]
