"""What judges the real pipelines: a replay of micro-batches, a reader of Delta's log, a comparison."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval.pipelines import overload
from eval.pipelines.delta_table import DeltaTableError, revenue, versions
from eval.pipelines.fresh import differing
from eval.pipelines.latency import Latencies
from eval.pipelines.orders import Order, last, orders
from eval.pipelines.replay import ReplayError, replay
from eval.pipelines.verdict import Verdict

SECOND = 1000


def order(number: int, second: int, shop: str = "a", cents: int = 1) -> Order:
    return Order(number, second * SECOND, shop, cents)


def log(checkpoint: Path, *entries: tuple[int, dict[str, int]]) -> Path:
    """An offset log: of each micro-batch the watermark, in seconds, and the offsets of the partitions."""
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True)
    for number, (watermark, offsets) in enumerate(entries):
        metadata = json.dumps({"batchWatermarkMs": watermark * SECOND})
        (folder / str(number)).write_text("\n".join(["v1", metadata, json.dumps({"orders": offsets})]))
    return checkpoint


def test_orders_are_the_same_for_a_seed_and_some_are_late() -> None:
    first, again, other = (list(islice(orders(seed), 2000)) for seed in (1, 1, 2))
    assert first == again != other
    assert sum(later.at_ms + 20 * SECOND < before.at_ms for before, later in pairwise(first)) > 20
    assert last(2000).at_ms > max(one.at_ms for one in first) + 3000 * SECOND


def test_a_replay_drops_by_the_watermark_of_the_micro_batch_before(tmp_path: Path) -> None:
    """An order of a window that is closed still counts in the first micro-batch that knows of it."""
    partitions = [[order(0, 5), order(2, 6), order(4, 7)], [order(1, 35), order(3, 1, cents=9)]]
    checkpoint = log(
        tmp_path,
        (0, {"0": 1, "1": 1}),
        (25, {"0": 2, "1": 1}),  # by the first watermark, 0, this order is in time
        (25, {"0": 3, "1": 2}),  # by 25 s these are not
    )
    found = replay(checkpoint, partitions)
    assert (found.batches, found.orders, found.dropped) == (3, 5, 2)
    first, open_one = (0, "a", 2, 2), (30 * SECOND, "a", 1, 1)
    assert found.appended == Counter([first])
    assert found.latest == Counter([first, open_one])
    assert found.updated == Counter([(0, "a", 1, 1), open_one, first])


def test_a_replay_refuses_a_log_that_is_not_of_these_orders(tmp_path: Path) -> None:
    partitions = [[order(0, 35)], []]
    with pytest.raises(ReplayError, match="watermark"):
        replay(log(tmp_path / "watermark", (0, {"0": 1, "1": 0}), (30, {"0": 1, "1": 0})), partitions)
    gap = log(tmp_path / "gap", (0, {"0": 1, "1": 0}), (25, {"0": 1, "1": 0}))
    (gap / "offsets" / "0").unlink()
    with pytest.raises(ReplayError, match=r"entries \[1\]"):
        replay(gap, partitions)


def test_a_message_has_arrived_with_the_first_row_that_counts_it() -> None:
    """Rows of another key or window count others; a row that comes again, or an older one, counts nothing new."""
    found, second = Latencies(), 1_000_000
    for created in (1, 2, 4, 11):
        found.created("a", created * second)
    found.created("b", 2 * second)
    for key, latest, at in (("a", 2, 3), ("a", 1, 5), ("a", 2, 6), ("a", 11, 12)):
        found.arrived(key, latest * second, at * second)
    assert found.seconds == [(1 * second, 2), (2 * second, 1), (11 * second, 1)]
    assert found.missing == 2
    found.seconds = [(created, created / 1000) for created in range(1, 1001)]
    assert found.percentiles(since_us=0) == pytest.approx((500, 950, 990), abs=1)
    assert found.percentiles(since_us=901)[0] == pytest.approx(950, abs=1)


def test_a_group_that_is_lost_does_not_make_up_for_one_that_is_none() -> None:
    expected = {"a": 1, "b": 2, "c": 3}
    assert differing(expected, expected) == 0
    assert differing({"a": 1, "b": 9, "d": 4}, expected) == 3
    assert differing({"a": 1, "b": 2}, expected) == 1


def test_a_window_that_is_written_twice_is_doubled(tmp_path: Path) -> None:
    folder = tmp_path / "rows" / "_spark_metadata"
    folder.mkdir(parents=True)
    row = {"window": {"start": datetime.fromtimestamp(10, UTC)}, "user_id": "a", "count": 2, "sum": 5}
    for number in range(2):
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / f"{number}.parquet")
    first, second = (json.dumps({"path": f"file:{tmp_path}/{number}.parquet"}) for number in range(2))
    (folder / "0").write_text(f"v1\n{first}")
    (folder / "1.compact").write_text(f"v1\n{first}\n{second}")
    expected = Counter([(10_000_000, "a", 2, 5)])
    assert Verdict.of(overload._rows(str(tmp_path)), expected) == Verdict(rows=2, lost=0, doubled=1, wrong=0)


def test_one_limit_is_nothing_to_compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert [len(overload.limits(rows)) for rows in (999_999, 1_000_000, 4_000_000, 50_000_000)] == [0, 1, 2, 3]
    monkeypatch.setattr("sys.argv", ["overload", "--rows", "3999999"])
    with pytest.raises(SystemExit):
        overload.main()
    assert "--rows 3999999: 4,000,000 or more" in capsys.readouterr().err


def write(table: Path, version: int, *actions: dict[str, object]) -> None:
    folder = table / "_delta_log"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_a_delta_table_is_what_its_log_has_added_and_not_removed(tmp_path: Path) -> None:
    for number in range(3):
        start = datetime.fromtimestamp(10 * number, UTC)
        columns = {"window_start": [start], "shop": ["a"], "orders": [number], "cents": [number]}
        pq.write_table(pa.table(columns), tmp_path / f"part {number}.parquet")
    assert revenue(tmp_path) == Counter()
    added = [{"add": {"path": f"part%20{number}.parquet"}} for number in range(3)]
    write(tmp_path, 0, {"metaData": {}})
    write(tmp_path, 1, {"txn": {"appId": "q", "version": 0}}, added[0], added[1])
    write(tmp_path, 2, {"txn": {"appId": "q", "version": 1}}, {"remove": added[0]["add"]})
    assert [(batch, len(files)) for batch, files in versions(tmp_path)] == [(None, 0), (0, 2), (1, 1)]
    assert revenue(tmp_path) == Counter([(10 * SECOND, "a", 1, 1)])
    write(tmp_path, 3, {"add": {"path": "x.parquet", "deletionVector": {"storageType": "u"}}})
    with pytest.raises(DeltaTableError, match="deletion vector"):
        revenue(tmp_path)


@pytest.mark.parametrize(
    ("found", "lost", "doubled", "wrong"),
    [([1, 2], 0, 0, 0), ([1], 1, 0, 0), ([1, 2, 2, 2], 0, 2, 0), ([1, 3, 3], 1, 0, 2)],
)
def test_a_verdict_counts_what_is_missing_more_than_once_and_foreign(
    found: list[int], lost: int, doubled: int, wrong: int
) -> None:
    rows = Counter((number, "a", 0, 0) for number in found)
    verdict = Verdict.of(rows, Counter((number, "a", 0, 0) for number in (1, 2)))
    assert verdict == Verdict(len(found), lost, doubled, wrong)
    assert verdict.complete == (lost == wrong == 0)
    assert verdict.exact == (lost == doubled == wrong == 0)
