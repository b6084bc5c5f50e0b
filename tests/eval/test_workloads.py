"""The workloads' rows: what the reports say about them has to be true."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from eval.workloads import Aggregate, Workload, Ysb
from eval.workloads.base import DISORDER_US, EPOCH_US, WATERMARK_MS
from eval.workloads.ysb import ADS_PER_CAMPAIGN, EVENT_BYTES

SMALL = [Aggregate(rows=80_000, span_s=40.0, keys=500), Ysb(rows=80_000, span_s=40.0, campaigns=50)]


def tables(workload: Workload, cache: Path) -> list:
    files = sorted((workload.generate(cache) / "rows").iterdir(), key=lambda file: file.stat().st_mtime)
    return [pq.read_table(file) for file in files]


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_rows_batches_and_span_are_as_asked(workload: Workload, tmp_path: Path) -> None:
    made = tables(workload, tmp_path)
    assert len(made) == workload.batches * workload.files_per_batch
    assert sum(table.num_rows for table in made) == workload.rows
    times = np.concatenate([table[workload.event_time].to_numpy().astype("int64") for table in made])
    assert times.min() >= EPOCH_US
    assert times.max() < EPOCH_US + workload.span_s * 1e6 + DISORDER_US


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_no_row_is_late(workload: Workload, tmp_path: Path) -> None:
    seen = EPOCH_US
    for table in tables(workload, tmp_path):
        times = table[workload.event_time].to_numpy().astype("int64")
        assert times.min() > seen - WATERMARK_MS * 1000
        seen = max(seen, times.max())


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_equal_parameters_make_equal_rows(workload: Workload, tmp_path: Path) -> None:
    first, second = tables(workload, tmp_path / "a"), tables(workload, tmp_path / "b")
    assert all(a.equals(b) for a, b in zip(first, second, strict=True))
    assert not tables(replace(workload, seed=2), tmp_path / "a")[0].equals(first[0])


def test_a_sample_is_shorter_and_long_enough_for_windows_to_close() -> None:
    sample = Aggregate(rows=1_000_000, span_s=10.0).sample()
    assert sample.rows == 200_000
    assert sample.span_s == 40.0
    assert Aggregate().sample().span_s == 40.0


def test_skew_makes_few_keys_hot(tmp_path: Path) -> None:
    even = Aggregate(rows=80_000, span_s=40.0, keys=1000)
    share = {}
    for workload in (even, replace(even, skew=1.2)):
        keys = np.concatenate([table["key"].to_numpy() for table in tables(workload, tmp_path)])
        assert keys.min() >= 0
        assert keys.max() < workload.keys
        share[workload.skew] = Counter(keys.tolist()).most_common(1)[0][1] / workload.rows
    assert share[0.0] < 0.01
    assert share[1.2] > 0.1


def test_ysb_events_are_78_bytes_and_each_ad_has_its_campaign(tmp_path: Path) -> None:
    workload = SMALL[1]
    assert isinstance(workload, Ysb)
    assert EVENT_BYTES == 78
    ads = pq.read_table(workload.generate(tmp_path) / "ads.parquet")
    campaign = dict(zip(ads["ad_id"].to_pylist(), ads["campaign_id"].to_pylist(), strict=True))
    assert len(campaign) == workload.campaigns * ADS_PER_CAMPAIGN
    assert set(Counter(campaign.values()).values()) == {ADS_PER_CAMPAIGN}
    events = tables(workload, tmp_path)[0]
    assert set(events["ad_id"].to_pylist()) <= campaign.keys()
    views = events["event_type"].to_pylist().count("view") / events.num_rows
    assert 0.3 < views < 0.37
