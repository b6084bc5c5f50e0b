"""Drivers and agents that are killed in the middle of a sink's write: nothing is lost, and Delta has nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.pipelines.struck import AGENT, DRIVER, WRITING, WRITTEN, Strike, Struck, draw, is_right

FEW = [Strike("merge", WRITTEN, DRIVER), Strike("kafka", WRITING, DRIVER)]
MOST = 10
KILLS = 100


@pytest.mark.usefixtures("delta_jars")
def test_a_few_kills(kafka: str, tmp_path: Path) -> None:
    struck = Struck(tmp_path, kafka, seed=101)
    verdicts = struck.run(until_one_comes_again(struck))
    assert is_right(verdicts), verdicts
    assert struck.strikes.keys() == set(FEW)
    assert struck.repeated.total() > 0, "no micro-batch came again to a sink that had it"


def until_one_comes_again(struck: Struck) -> Iterator[Strike]:
    """A strike from outside may come too late, when Spark's log has the micro-batch already."""
    for number, strike in enumerate(islice(cycle(FEW), MOST), 1):
        yield strike
        if number >= len(FEW) and struck.repeated.total() > 0:
            return


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("delta_jars")
def test_a_hundred_kills(kafka: str, tmp_path: Path) -> None:
    struck = Struck(tmp_path, kafka, seed=102)
    verdicts = struck.run(islice(draw(102), KILLS))
    assert is_right(verdicts), verdicts
    assert struck.strikes.total() + struck.spared == KILLS
    on_agents = sum(count for strike, count in struck.strikes.items() if strike.victim == AGENT)
    assert on_agents > KILLS / 6, f"half of those that are drawn; {struck.spared} were spared"
    assert all(struck.repeated[name] for name in verdicts), struck.repeated
