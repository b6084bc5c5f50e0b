"""Which inputs and partitions late rows come from: what is told of those that there are."""

from __future__ import annotations

from pyslash.driver.late.late_inputs import MOST_PARTITIONS, LateInputs
from pyslash.spark.jvm_bridge import TaskRead
from pyslash.units import Epoch


def read(partition: str | None, newest_ms: int | None, late: int = 0, source: int = 0) -> TaskRead:
    return TaskRead(source, partition, newest_ms, late)


def test_the_tasks_of_a_partition_are_added_up() -> None:
    inputs = LateInputs()
    inputs.take(Epoch(3), [read("t-0", 70, 1), read("t-0", 50, 4), read("t-1", 90)])
    assert inputs.figures(Epoch(3)).partitions == [
        {
            "partition": "t-0",
            "input": 0,
            "newest_ms": 70,
            "behind_ms": 20,
            "late_rows": 5,
            "late_rows_in_all": 5,
            "last_epoch": 3,
        },
        {
            "partition": "t-1",
            "input": 0,
            "newest_ms": 90,
            "behind_ms": 0,
            "late_rows": 0,
            "late_rows_in_all": 0,
            "last_epoch": 3,
        },
    ]


def test_late_rows_are_those_of_the_epoch_and_of_all() -> None:
    inputs, found = LateInputs(), []
    for epoch, (newest, late) in enumerate([(70, 2), (60, 3), (100, 0)]):
        inputs.take(Epoch(epoch), [read("t-0", newest, late)])
        (told,) = inputs.figures(Epoch(epoch)).partitions
        found.append((told["late_rows"], told["late_rows_in_all"], told["newest_ms"], told["last_epoch"]))
    assert found == [(2, 2, 70, 0), (3, 5, 70, 1), (0, 5, 100, 2)]


def test_an_epoch_that_has_read_nothing_has_no_late_rows() -> None:
    """As one that is replayed, or in which only the watermark moves."""
    inputs = LateInputs()
    inputs.take(Epoch(0), [read("t-0", 70, 2), read("t-0", 80, 3, source=1)])
    assert inputs.figures(Epoch(0)).late_by_input == [2, 3]
    later = inputs.figures(Epoch(1))
    assert later.late_by_input == []
    assert {(one["late_rows"], one["last_epoch"]) for one in later.partitions} == {(0, 0)}
    assert sum(one["late_rows_in_all"] for one in later.partitions) == 5


def test_the_two_sides_of_a_join_have_partitions_of_their_own() -> None:
    """Of one topic as well, and neither is behind the other."""
    inputs = LateInputs()
    inputs.take(Epoch(0), [read("t-0", 10, source=0), read("t-0", 500, 1, source=1), read("t-1", 400, source=1)])
    told = {(one["input"], one["partition"]): one["behind_ms"] for one in inputs.figures(Epoch(0)).partitions}
    assert told == {(0, "t-0"): 0, (1, "t-0"): 0, (1, "t-1"): 100}
    assert inputs.figures(Epoch(0)).late_by_input == [0, 1]


def test_what_no_partition_is_known_of_is_counted_by_input_alone() -> None:
    inputs = LateInputs()
    inputs.take(Epoch(0), [read(None, 70, 2, source=1), read("t-0", None)])
    assert inputs.figures(Epoch(0)) == type(inputs.figures(Epoch(0)))([0, 2], [])


def test_of_thousands_those_that_lose_most_are_told_of() -> None:
    inputs = LateInputs()
    inputs.take(Epoch(0), [read(f"t-{number}", 10_000 - number) for number in range(3000)])
    inputs.take(Epoch(1), [read("t-5", 9_000, 1), read("t-7", 9_000, 40)])
    told = [one["partition"] for one in inputs.figures(Epoch(1)).partitions]
    assert len(told) == MOST_PARTITIONS
    assert told[:4] == ["t-7", "t-5", "t-2999", "t-2998"]
