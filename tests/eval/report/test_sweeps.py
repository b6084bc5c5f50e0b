"""Curves hold what differs in one parameter alone."""

from __future__ import annotations

from typing import Any

from eval.records import compare
from eval.report.sweeps import BATCH_ROWS, CARDINALITY, SKEW, scaling, sweeps, swept
from tests.eval.report.lines import run


def skewed(*skews: float, **fields: Any) -> list[dict[str, Any]]:
    return [run("slash", 1e6 + skew, title=f"skew {skew}", workload={"skew": skew}, **fields) for skew in skews]


def test_a_curve_is_ascending_and_of_one_session() -> None:
    comparisons = compare(skewed(1.5, 0.0, 0.5) + skewed(0.7, session="other"))
    (sweep,) = sweeps(comparisons, SKEW)
    assert sweep.values == [0.0, 0.5, 1.5]
    assert [value for value, _ in sweep.curves["slash"]] == [0.0, 0.5, 1.5]
    assert swept(comparisons) == {id(comparison) for comparison in comparisons[:3]}


def test_what_differs_in_more_is_no_curve() -> None:
    records = [run("slash", 1e6), run("slash", 1e6, workload={"skew": 1.0, "keys": 5})]
    assert sweeps(compare(records), SKEW) == []
    assert sweeps(compare(records), CARDINALITY) == []


def test_rows_of_a_batch_follow_from_its_workload() -> None:
    records = [run("slash", 1e6, title=str(n), workload={"batches": n}) for n in (4, 100)]
    (sweep,) = sweeps(compare(records), BATCH_ROWS)
    assert sweep.values == [10_000, 250_000]


def test_scaling_goes_by_nodes_whatever_the_rows() -> None:
    records = [
        run("slash", nodes * 1e6, title=f"weak, {nodes}", nodes=nodes, scaling="weak", workload={"rows": nodes * 10})
        for nodes in (1, 2, 4)
    ]
    records += [run("slash", 1e6, title=f"strong, {nodes}", nodes=nodes, scaling="strong") for nodes in (1, 2)]
    comparisons = compare(records)
    weak, strong = scaling(comparisons)
    assert (weak.title, weak.values) == ("aggregate, weak scaling", [1, 2, 4])
    assert (strong.title, strong.values) == ("aggregate, strong scaling", [1, 2])
    assert sweeps(comparisons, SKEW) == []
