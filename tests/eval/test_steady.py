"""The steady part of a stream: what is left out before it, and when it is long enough."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from eval.steady import Entry, Steady, bounds, executed

RULE = Steady(warm_batches=3, warm_s=5.0, batches=4, seconds=10.0, most_s=20.0)


def entries(count: int, seconds: float, began: float = 1_000.0) -> list[Entry]:
    """Micro-batches one after the other, each of which takes so long."""
    return [
        {
            "batchId": number,
            "timestamp": datetime.fromtimestamp(began + number * seconds, UTC).isoformat(timespec="milliseconds"),
            "durationMs": {"addBatch": 1, "triggerExecution": seconds * 1000},
        }
        for number in range(count)
    ]


@pytest.mark.parametrize(("seconds", "first"), [(4.0, 3), (0.5, 10)])
def test_it_begins_when_both_time_and_micro_batches_have_passed(seconds: float, first: int) -> None:
    assert RULE.part(entries(20, seconds))[0]["batchId"] == first


def test_it_goes_from_a_start_to_an_end() -> None:
    assert bounds(entries(4, 2.0)) == (1_000.0, 1_008.0)


@pytest.mark.parametrize(
    ("count", "seconds", "over"),
    [
        (29, 0.5, False),
        (30, 0.5, True),
        (6, 4.0, False),
        (7, 4.0, True),
        (5, 9.0, False),
        (6, 9.0, True),
        (0, 1.0, False),
    ],
    ids=["short", "long enough", "few micro-batches", "enough of them", "slow", "slow, most", "nothing"],
)
def test_it_is_over_when_it_is_long_and_has_enough_micro_batches(count: int, seconds: float, over: bool) -> None:
    assert RULE.is_over(entries(count, seconds)) is over


def test_triggers_that_ran_nothing_are_no_micro_batches() -> None:
    ran, idle = entries(2, 1.0)
    del idle["durationMs"]["addBatch"]
    assert executed([ran, idle]) == [ran]
