"""The suites: that they are what their docstrings say, without running them."""

from __future__ import annotations

import pytest

from eval.engines import ENGINES
from eval.suites import JUDGED, SUITES, in_order
from eval.workloads.base import WATERMARK_MS

ROWS = 2_000_000


@pytest.mark.parametrize("suite", SUITES)
def test_its_comparisons_can_be_run(suite: str) -> None:
    comparisons = SUITES[suite](ROWS)
    assert comparisons
    for comparison in comparisons:
        assert set(comparison.engines) <= set(ENGINES)
        assert all(1 <= batches <= comparison.workload.batches for batches in comparison.first.values())
        assert comparison.workload.rows >= comparison.workload.batches


def test_no_two_comparisons_have_one_title() -> None:
    titles = [comparison.title for suite in SUITES.values() for comparison in suite(ROWS)]
    assert len(titles) == len(set(titles))


def test_what_bars_are_judged_by_comes_first() -> None:
    titles = [comparison.title for _, comparison in in_order(SUITES, ROWS)]
    assert set(titles[: len(JUDGED)]) == JUDGED
    assert len(titles) > len(JUDGED)


@pytest.mark.parametrize("suite", ["skew", "cardinality", "arcon", "batches"])
def test_a_parameter_is_all_that_differs(suite: str) -> None:
    workloads = [comparison.workload.describe() for comparison in SUITES[suite](ROWS)]
    swept = {"skew": {"skew"}, "cardinality": {"keys"}, "arcon": {"iterations", "partitions"}, "batches": {"batches"}}
    same_size = [each for each in workloads if each["rows"] == workloads[-1]["rows"]]
    differing = {name for each in same_size for name, value in each.items() if value != same_size[0][name]}
    assert differing == swept[suite]


@pytest.mark.parametrize("suite", SUITES)
def test_windows_close_in_its_streams_and_in_their_samples(suite: str) -> None:
    for comparison in SUITES[suite](20_000_000):
        workload = comparison.workload
        if workload.has_state and "none closing" not in comparison.title:
            needed = workload.longest_window_s / workload.windows_a_row + WATERMARK_MS / 1000
            assert workload.span_s > needed
            assert workload.sample().span_s > workload.longest_window_s + WATERMARK_MS / 1000
