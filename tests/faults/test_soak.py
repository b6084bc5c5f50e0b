"""Half a minute of the soak; `make soak MINUTES=n` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.conftest import Record
from tests.faults.figures import LEAST_SAMPLES, SLACK, Figures
from tests.faults.soak import Soak


@pytest.mark.nightly
def test_random_kills_for_half_a_minute_change_no_row(
    spark: SparkSession, cluster: str, record: Record, tmp_path: Path
) -> None:
    soak = Soak(cluster, tmp_path, seconds=30, seed=3)
    soak.run()
    assert record(soak.tally(spark)).exact
    assert soak.late > 0
    assert sum(soak.faults.values()) >= 4, soak.faults
    assert soak.faults["kill agent"] > 0, soak.faults
    assert soak.figures.missing() == []
    assert soak.figures.growing() == []


@pytest.mark.parametrize(("last", "grows"), [(100, False), (200, True)])
def test_a_figure_grows_if_its_end_is_above_its_middle(last: int, grows: bool) -> None:
    figures = Figures()
    for value in [500] * 4 + [100] * 3 + [last] * 3:
        figures.add("agent fds", value)
    assert bool(figures.growing()) is grows


def test_a_figure_that_was_hardly_ever_sampled_is_told() -> None:
    figures = Figures()
    for name in SLACK:
        for _ in range(LEAST_SAMPLES):
            figures.add(name, 1)
    assert figures.missing() == []
    figures.samples["agent fds"].pop()
    del figures.samples["arena bytes"]
    assert figures.missing() == ["arena bytes", "agent fds"]
    assert figures.growing() == []
