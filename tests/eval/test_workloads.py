"""The workloads' rows: what the reports say about them has to be true."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from gzip import compress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval.workloads import WORKLOADS, Aggregate, Arcon, CategoryLoad, JobLoad, NewSellers, Workload, Ysb
from eval.workloads.base import DISORDER_US, EPOCH_US, WATERMARK_MS
from eval.workloads.monitoring import JOBS
from eval.workloads.newton import Newton
from eval.workloads.query import Query
from eval.workloads.trace import KEPT
from eval.workloads.ysb import ADS_PER_CAMPAIGN

SMALL = [kind(rows=80_000, span_s=40.0) for kind in WORKLOADS.values()]
YSB = Ysb(rows=80_000, span_s=40.0, campaigns=50)


def tables(workload: Workload, cache: Path) -> list:
    files = sorted((workload.generate(cache) / "rows").iterdir(), key=lambda file: file.stat().st_mtime)
    return [pq.read_table(file) for file in files]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the rows of `SMALL`."""
    return tmp_path_factory.mktemp("small")


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_rows_batches_and_span_are_as_asked(workload: Workload, cache: Path) -> None:
    made = tables(workload, cache)
    assert len(made) == workload.batches * workload.files_per_batch
    assert sum(table.num_rows for table in made) == workload.rows
    times = np.concatenate([table[workload.event_time].to_numpy().astype("int64") for table in made])
    assert times.min() >= EPOCH_US
    assert times.max() < EPOCH_US + workload.span_s * 1e6 + DISORDER_US


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_no_row_is_late(workload: Workload, cache: Path) -> None:
    seen = EPOCH_US
    for table in tables(workload, cache):
        times = table[workload.event_time].to_numpy().astype("int64")
        assert times.min() > seen - WATERMARK_MS * 1000
        seen = max(seen, times.max())


def test_a_share_of_the_rows_is_late(tmp_path: Path) -> None:
    workload = Aggregate(rows=40_000, span_s=80.0, late=0.1)
    assert workload.files_per_batch == 1
    latest = [0, 0]
    late = between = 0
    for table in tables(workload, tmp_path):
        times = table["ts"].to_numpy().astype("int64")
        ends = times // 10_000_000 * 10_000_000 + 10_000_000
        # Spark holds rows against the watermark before the last.
        late += int((ends <= latest[-2] - WATERMARK_MS * 1000).sum())
        between += int((ends <= latest[-1] - WATERMARK_MS * 1000).sum())
        latest.append(max(latest[-1], int(times.max())))
    assert 0.01 * workload.rows < late < between < 0.1 * workload.rows


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_equal_parameters_make_equal_rows(workload: Workload, cache: Path, tmp_path: Path) -> None:
    first, second = tables(workload, cache), tables(workload, tmp_path)
    assert all(a.equals(b) for a, b in zip(first, second, strict=True))
    assert not tables(replace(workload, seed=2), tmp_path)[0].equals(first[0])


def test_a_sample_is_shorter_and_long_enough_for_windows_to_close() -> None:
    sample = Aggregate(rows=1_000_000, span_s=10.0).sample()
    assert sample.rows == 200_000
    assert sample.span_s == 40.0
    assert Aggregate().sample().span_s == 40.0


def test_a_sample_counts_a_row_once_for_each_of_its_windows() -> None:
    assert Aggregate().sample().rows == 1_000_000
    assert Aggregate(slide_s=1).sample().rows == 200_000
    assert CategoryLoad().sample().rows == 33_333
    assert CategoryLoad().sample().span_s >= 120


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


def test_each_ad_of_ysb_has_its_campaign(tmp_path: Path) -> None:
    workload = YSB
    ads = pq.read_table(workload.generate(tmp_path) / "ads.parquet")
    campaign = dict(zip(ads["ad_id"].to_pylist(), ads["campaign_id"].to_pylist(), strict=True))
    assert len(campaign) == workload.campaigns * ADS_PER_CAMPAIGN
    assert set(Counter(campaign.values()).values()) == {ADS_PER_CAMPAIGN}
    events = tables(workload, tmp_path)[0]
    assert set(events["ad_id"].to_pylist()) <= campaign.keys()
    views = events["event_type"].to_pylist().count("view") / events.num_rows
    assert 0.3 < views < 0.37


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_the_first_micro_batches_are_the_same_rows(workload: Workload, cache: Path) -> None:
    whole, first = tables(workload, cache), tables(workload.first(2), cache)
    assert len(first) == 2 * workload.files_per_batch
    assert all(a.equals(b) for a, b in zip(first, whole, strict=False))
    assert workload.first(100) is workload


def test_cluster_monitoring_has_a_job_with_a_fifth_of_the_rows(tmp_path: Path) -> None:
    workload = JobLoad(rows=80_000, span_s=40.0)
    jobs = Counter(np.concatenate([table["job_id"].to_numpy() for table in tables(workload, tmp_path)]).tolist())
    assert len(jobs) == JOBS
    assert jobs.most_common(1)[0][1] / workload.rows == pytest.approx(0.19, abs=0.01)


TRACE = """\
600000000,,3418309,0,4155527081,1,user,3,9,0.125,0.07446,0.0004244,0
600000001,,3418309,1,,0,user,2,9,,,,1
"""


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_trace_gives_its_rows_again_and_again(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"task_events{suffix}"
    path.write_bytes(TRACE.encode() if suffix == ".csv" else compress(TRACE.encode()))
    workload = CategoryLoad(rows=5, batches=2, span_s=10.0, trace=str(path))
    made = tables(workload, tmp_path)
    assert made[0].column_names == ["event_time", *KEPT]
    assert made[0].schema == tables(replace(workload, trace=""), tmp_path)[0].schema
    read = [value for table in made for value in table.to_pylist()]
    assert [row["task_index"] for row in read] == [0, 1, 0, 1, 0]
    assert [row["cpu"] for row in read] == [0.125, None, 0.125, None, 0.125]
    assert [row["different_machines"] for row in read[:2]] == [False, True]


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"other\.csv is no task_events file of 13 columns"):
        CategoryLoad(rows=4, batches=1, span_s=1.0, trace=str(path)).generate(tmp_path)


def test_arcons_partitions_have_their_shares(tmp_path: Path) -> None:
    workload = Arcon(rows=80_000, span_s=40.0, partitions="skewed")
    ids = np.concatenate([table["id"].to_numpy() for table in tables(workload, tmp_path)])
    assert set(ids.tolist()) == set(range(50))
    assert np.bincount(ids % 4) / workload.rows == pytest.approx([0.51, 0.20, 0.07, 0.22], abs=0.01)


def test_auctions_of_nb8_are_of_persons_who_came_before(tmp_path: Path) -> None:
    rows = pa.concat_tables(tables(NewSellers(rows=20_000), tmp_path))
    number, person, auction = (np.arange(rows.num_rows), rows["person"].to_numpy(), rows["is_auction"].to_numpy())
    assert person[~auction].tolist() == list(range(5_000))
    behind = (number // 4 - person)[auction]
    assert (behind.min(), behind.max()) == (0, 999)
    assert auction.mean() == 0.75
    assert rows["item"].null_count == 5_000


def test_newtons_root_is_the_root() -> None:
    values = np.array([1.0, 2.0, 1e6])
    assert Newton(100)(values) == pytest.approx(np.sqrt(values), rel=1e-15)
    assert Newton(0)(values).tolist() == values.tolist()


def test_a_window_is_a_whole_number_of_slides() -> None:
    with pytest.raises(ValueError, match="10 s is no multiple of its slide of 3 s"):
        Query(time="ts", window_s=10, slide_s=3)
