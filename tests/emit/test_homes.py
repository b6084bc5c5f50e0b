"""How many homes a query has."""

from __future__ import annotations

from typing import Any

import pytest

from pyslash.conf import Conf
from pyslash.emit.column_merge import HOME_GROUPS, HOMES
from pyslash.emit.homes import Homes, Opened
from pyslash.emit.merge import HomeUpdate
from pyslash.epoch_progress import ABOVE_NS, MERGE_NS
from pyslash.state.version import VersionStep
from pyslash.units import Epoch, Micros

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SECOND_NS = 1_000_000_000


class Session:
    """One with so many executors of one core."""

    def __init__(self, executors: int) -> None:
        self.sparkContext = self
        self.defaultParallelism = executors


class Columns:
    """Executors that are told to forget, and whose tasks take so long."""

    forgotten = 0
    task_ns = 0
    opened = 0  # homes, by them
    groups = 0  # in these

    def forget(self) -> None:
        self.forgotten += 1

    def new_counts(self) -> dict[str, int]:
        return {
            MERGE_NS: self.task_ns - self.task_ns // 3,
            ABOVE_NS: self.task_ns // 3,
            HOMES: self.opened,
            HOME_GROUPS: self.groups,
        }


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Query:
    monkeypatch.setattr("pyslash.emit.homes.executors", lambda session: session.defaultParallelism)
    return Query()


class Query:
    """Epochs of a query on 16 executors."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.homes = self.with_conf({})
        self._epoch = 0

    def with_conf(self, conf: dict[str, str]) -> Homes:
        columns: Any = self.columns
        self.homes = Homes("groups", Conf.read(lambda key, default: conf.get(key, default)), columns)
        return self.homes

    def took(self, nanoseconds: int) -> None:
        """Its tasks, in an epoch, all together."""
        self.columns.task_ns = nanoseconds
        self.homes.new_counts()

    def epoch(self, changed: int, needed: int = MIB, cores: int = 16) -> Opened | None:
        session: Any = Session(cores)
        before = f"version {self._epoch}" if self._epoch else ""
        self._epoch += 1
        kept = HomeUpdate(VersionStep(before, f"version {self._epoch}"), Epoch(self._epoch), Micros(0))
        return self.homes.open(session, kept, needed, changed)


@pytest.mark.parametrize(
    ("changed", "needed", "ranges"),
    [
        (24 * KIB, MIB, 1),  # a thousand groups are not worth a second task
        (2400 * KIB, 10 * MIB, 4),
        (24 * MIB, 100 * MIB, 10),
        (240 * MIB, GIB, 16),  # no more than there are cores
        (24 * KIB, 2 * GIB, 8),  # what is lost has to be read again
        (0, 0, 1),
    ],
)
def test_as_many_as_what_changes_is_worth(query: Query, changed: int, needed: int, ranges: int) -> None:
    assert query.epoch(changed, needed) == Opened(ranges, follow=False)


def test_homes_stay_unless_they_should_be_twice_as_many(query: Query) -> None:
    found = [query.epoch(changed * KIB) for changed in (900, 2000, 24, 4000, 4000, 24)]
    assert [opened.ranges for opened in found if opened] == [2, 2, 2, 4, 4, 4]
    assert [opened.follow for opened in found if opened] == [False, True, True, False, True, True]
    assert query.columns.forgotten == 1


def test_a_home_is_no_larger_than_an_executors_memory(query: Query) -> None:
    query.with_conf({"spark.slash.home.size": "64m"})
    assert query.epoch(24 * KIB, 256 * MIB) == Opened(8, follow=False)
    assert query.epoch(24 * KIB, 2 * GIB) is None
    assert query.columns.forgotten == 1
    assert query.epoch(24 * KIB, 512 * MIB) == Opened(16, follow=False)


def test_groups_are_as_many_as_homes_say(query: Query) -> None:
    query.epoch(24 * KIB, 2 * GIB)
    assert query.homes.groups_with(10) == 0
    query.columns.opened, query.columns.groups = 16, 3000  # its sink reads all rows twice
    query.homes.new_counts()
    assert query.homes.groups_with(10) == 1510
    query.columns.opened, query.columns.groups = 3, 500  # some of them: all that was changed may be new
    query.homes.new_counts()
    assert query.homes.groups_with(20) == 1530
    query.homes.forget()
    assert query.homes.groups_with(10) == 0


def test_all_cores_share_what_keeps_tasks_for_long(query: Query) -> None:
    assert query.epoch(24 * KIB) == Opened(1, follow=False)
    for nanoseconds in (*[SECOND_NS] * 7, 1000, *[SECOND_NS] * 7):
        query.took(nanoseconds)
        assert query.epoch(24 * KIB) == Opened(1, follow=True)
    query.took(0)  # an epoch without rows says nothing
    assert query.epoch(24 * KIB) == Opened(1, follow=True)
    query.took(SECOND_NS)
    assert query.epoch(24 * KIB) == Opened(16, follow=False)


def test_as_many_as_cores_if_the_driver_merges_nothing(query: Query) -> None:
    query.with_conf({"spark.slash.merge.driverBytes": "0"})
    assert query.epoch(0) == Opened(16, follow=False)
