"""The rows of tasks, by their skew."""

from __future__ import annotations

import numpy as np
import pytest

from eval.scale.load import EVEN, EXECUTOR, KEY, SKEWS, Load

KEYS, BLOCKS, ROWS, EXECUTORS = 50, 4, 12_000, 5


def keys_of(load: Load, executor: int) -> list[np.ndarray]:
    """Of each task."""
    return [batch.column("k").to_numpy() for batch in load.batches(0, executor, EXECUTORS)]


@pytest.mark.parametrize("skew", SKEWS)
def test_all_executors_have_as_many_rows_together(skew: str) -> None:
    load = Load(KEYS, BLOCKS, ROWS, skew)
    rows = [sum(map(len, keys_of(load, executor))) for executor in range(EXECUTORS)]
    assert sum(rows) == ROWS * EXECUTORS
    assert rows[0] == (sum(rows) // 2 if skew == EXECUTOR else ROWS)
    assert len(set(rows[1:])) == 1


def test_half_of_a_task_s_rows_have_the_hot_key() -> None:
    for keys in keys_of(Load(KEYS, BLOCKS, ROWS, KEY), 3):
        _, counts = np.unique(keys, return_counts=True)
        assert counts.max() >= len(keys) // 2
        assert len(counts) == KEYS
    assert np.unique(keys_of(Load(KEYS, BLOCKS, ROWS, EVEN), 3)[0], return_counts=True)[1].max() < ROWS / BLOCKS / 10


def test_without_rows_each_block_has_each_key_once() -> None:
    assert [keys.tolist() for keys in keys_of(Load(KEYS, BLOCKS), 1)] == [list(range(KEYS))] * BLOCKS


def test_one_executor_has_all_rows_under_any_skew() -> None:
    assert Load(KEYS, BLOCKS, ROWS, EXECUTOR).rows_of(0, 1) == ROWS // BLOCKS
