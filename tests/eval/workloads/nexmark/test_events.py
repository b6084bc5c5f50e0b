"""The events against the published configuration: proportions, ids, hot ones, sizes, times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from eval.workloads import Nexmark
from eval.workloads.nexmark import events
from eval.workloads.nexmark.events import AUCTION, BID, FIRST_AUCTION, FIRST_PERSON, PERSON, PUBLISHED

SIZE = 200_000
GAP_US = 100.0


@pytest.fixture(scope="module")
def number() -> np.ndarray:
    """Of events far behind the first ones, so that there are as many persons and auctions as there ever are."""
    return np.arange(1_000_000, 1_000_000 + SIZE)


@pytest.fixture(scope="module")
def table(number: np.ndarray) -> pa.Table:
    """The events."""
    times = (number * GAP_US).astype(np.int64)
    return events.events(PUBLISHED, np.random.default_rng(5), number, times, GAP_US, seed=1)


def of(table: pa.Table, kind: int) -> pa.Table:
    return table.filter(pc.equal(table["event_type"], kind))


def column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy()


def test_of_fifty_events_one_is_a_person_and_three_are_auctions(table: pa.Table) -> None:
    kinds = column(table, "event_type").reshape(-1, 50)
    assert (kinds == [PERSON, *[AUCTION] * 3, *[BID] * 46]).all()


def test_ids_follow_each_other(table: pa.Table, number: np.ndarray) -> None:
    for kind, before, first in ((PERSON, 1, FIRST_PERSON), (AUCTION, 3, FIRST_AUCTION)):
        ids = column(of(table, kind), "id")
        assert ids[0] == first + number[0] // 50 * before
        assert (np.diff(ids) == 1).all()


def test_a_kind_has_its_own_columns(table: pa.Table) -> None:
    own = {
        PERSON: {"id", "name", "email_address", "credit_card", "city", "state"},
        AUCTION: {"id", "item_name", "description", "initial_bid", "reserve", "expires", "seller", "category"},
        BID: {"auction", "bidder", "price", "channel", "url"},
    }
    for kind, names in own.items():
        rows = of(table, kind)
        full = {name for name in rows.column_names if rows[name].null_count == 0}
        empty = {name for name in rows.column_names if rows[name].null_count == rows.num_rows}
        assert full == names | {"event_type", "date_time", "extra"}
        assert full | empty == set(rows.column_names)


def last(number: np.ndarray, kind: int) -> np.ndarray:
    """The id of the newest person or auction before a bid."""
    return number // 50 + FIRST_PERSON if kind == PERSON else number // 50 * 3 + 2 + FIRST_AUCTION


def test_half_of_the_bids_are_on_a_hot_auction_and_the_others_on_open_ones(table: pa.Table, number: np.ndarray) -> None:
    newest = last(number[column(table, "event_type") == BID], AUCTION)
    auction = column(of(table, BID), "auction")
    hot = auction == (newest - FIRST_AUCTION) // 100 * 100 + FIRST_AUCTION
    assert hot.mean() == pytest.approx(0.5 + 0.5 / 111, abs=0.01)
    behind = (newest - auction)[~hot]
    assert (behind.min(), behind.max()) == (-10, 100)


def test_three_of_four_bids_are_of_a_hot_bidder_and_the_others_of_active_people(
    table: pa.Table, number: np.ndarray
) -> None:
    newest = last(number[column(table, "event_type") == BID], PERSON)
    bidder = column(of(table, BID), "bidder")
    hot = bidder == (newest - FIRST_PERSON) // 100 * 100 + 1 + FIRST_PERSON
    assert hot.mean() == pytest.approx(0.75, abs=0.01)
    behind = (newest - bidder)[~hot]
    assert (behind.min(), behind.max()) == (-10, 999)


def test_three_of_four_auctions_are_of_a_hot_seller(table: pa.Table, number: np.ndarray) -> None:
    newest = last(number[column(table, "event_type") == AUCTION], PERSON)
    seller = column(of(table, AUCTION), "seller")
    assert (seller == (newest - FIRST_PERSON) // 100 * 100 + FIRST_PERSON).mean() == pytest.approx(0.75, abs=0.01)
    assert set(column(of(table, AUCTION), "category")) == set(range(10, 15))


def test_an_auction_is_open_until_a_hundred_others_have_come_on_average(table: pa.Table) -> None:
    auctions = of(table, AUCTION)
    length = (column(auctions, "expires") - column(auctions, "date_time")).astype("int64") / GAP_US
    assert length.min() > 0
    assert length.mean() == pytest.approx(100 * 50 / 3, rel=0.02)


def test_logarithms_of_prices_are_even(table: pa.Table) -> None:
    digits = np.log10(column(of(table, BID), "price"))
    assert np.histogram(digits, bins=6, range=(2, 8))[0] / len(digits) == pytest.approx([1 / 6] * 6, abs=0.01)
    auctions = of(table, AUCTION)
    assert (column(auctions, "reserve") > column(auctions, "initial_bid")).all()


def test_events_have_their_sizes_on_average(table: pa.Table) -> None:
    texts = {
        PERSON: (200, 8, ("name", "email_address", "credit_card", "city", "state", "extra")),
        AUCTION: (500, 48, ("item_name", "description", "extra")),
        BID: (100, 32, ("extra",)),
    }
    for kind, (size, numbers, names) in texts.items():
        rows = of(table, kind)
        found = numbers + sum(pc.mean(pc.utf8_length(rows[name])).as_py() for name in names)
        assert found == pytest.approx(size, rel=0.02)


def test_half_of_the_bids_come_by_a_hot_channel_and_nine_of_ten_other_urls_have_the_channels_number(
    table: pa.Table,
) -> None:
    bids = of(table, BID)
    hot = column(pa.table({"hot": pc.is_in(bids["channel"], pa.array(events.HOT_CHANNELS))}), "hot")
    assert hot.mean() == pytest.approx(0.5, abs=0.01)
    numbered = pc.match_substring(bids["url"], "&channel_id=").to_numpy()
    assert not numbered[hot].any()
    assert numbered[~hot].mean() == pytest.approx(0.9, abs=0.02)
    assert set(pc.count_substring(bids["url"], "/").to_pylist()) == {6}


def test_times_are_even_and_in_order_but_for_groups(tmp_path: Path) -> None:
    workload = Nexmark(rows=20_000, batches=2, span_s=2.0)
    for group in (1, 1_000):
        tables = [
            pq.read_table(file)
            for file in sorted((replace(workload, group=group).generate(tmp_path) / "rows").iterdir())
        ]
        times = np.concatenate([column(each, "date_time").astype("int64") for each in tables])
        steps = np.diff(times.reshape(-1, group).min(axis=1)) if group > 1 else np.diff(times)
        assert set(steps) == {100 * group}
        assert len(set(times)) == workload.rows
        assert (group == 1) == (np.sort(times) == times).all()


def test_all_queries_have_the_same_files(tmp_path: Path) -> None:
    one, other = (Nexmark(rows=2_000, batches=2, span_s=2.0, q=q).generate(tmp_path) / "rows" for q in (5, 17))
    assert one != other
    assert [f.stat().st_ino for f in sorted(one.iterdir())] == [f.stat().st_ino for f in sorted(other.iterdir())]
