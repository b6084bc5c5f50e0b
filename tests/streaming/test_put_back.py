"""A checkpoint that is put back to a copy of itself while its application lives, and Spark's own logs cut by hand.

Plain Spark is the oracle: the same happens to a checkpoint of its own, beside that of pyslash.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.spark.session import changed
from pyslash.state import durable
from tests.support.attempt import DELAY_SECONDS, SCHEMA, Attempt, add, attempt
from tests.support.stream import Stream

Rows = list[tuple[int, str, int]]

# Rows with v = 0 move the watermark, and are in no window: `query` drops them above it.
OPEN: Rows = [(1001 + at % 8, "ab"[at % 2], 1) for at in range(80)]
MORE: Rows = [(1002 + at % 8, "ab"[at % 2], 2) for at in range(60)]
CLOSING: Rows = [(2000, "a", 0)]
LATER: Rows = [(2001 + at % 8, "ab"[at % 2], 4) for at in range(20)]
LAST: Rows = [(3000, "a", 0)]
NOTHING: Rows = []
ENGINES = {"pyslash": "require", "spark": "off"}


@dataclass
class Story:
    """What happens to one checkpoint of each engine over the same input, step by step."""

    stream: Stream
    conf: dict[str, str] = field(default_factory=dict)
    ran: dict[str, list[Attempt]] = field(default_factory=lambda: {name: [] for name in ENGINES})

    def comes(self, *batches: Rows) -> Story:
        """More input."""
        for rows in batches:
            add(self.stream, rows) if rows else self.stream.add(SCHEMA.empty_table())
        return self

    def runs(self, fail_in: int | None = None) -> Story:
        """The query is started, and ends with its input; the sink fails in this batch."""
        for name, mode in ENGINES.items():
            given = self.conf if name == "pyslash" else {}
            self.ran[name].append(attempt(query(self.stream), self.checkpoint(name), mode, fail_in, **given))
        return self

    def is_copied(self) -> Story:
        """Somebody copies the checkpoint."""
        for name in ENGINES:
            shutil.copytree(self.checkpoint(name), self._copy(name))
        return self

    def is_put_back(self) -> Story:
        """The copy takes the checkpoint's place."""
        for name in ENGINES:
            shutil.rmtree(self.checkpoint(name))
            shutil.copytree(self._copy(name), self.checkpoint(name))
        return self

    def is_cut(self, *entries: str) -> Story:
        """Entries of Spark's logs are deleted."""
        for name in ENGINES:
            for entry in entries:
                path = self.checkpoint(name) / entry
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        return self

    def checkpoint(self, name: str) -> Path:
        return self.stream.folder / name

    def _copy(self, name: str) -> Path:
        return self.stream.folder / f"copy of {name}"

    def batches(self, name: str) -> list[list[tuple[int, list[str]]]]:
        """What the sink got from each start."""
        return [one.batches for one in self.ran[name]]

    def check(self, emitted: int) -> None:
        """Every start has given what Spark's has, and the last one so many rows."""
        assert [one.error for one in self.ran["pyslash"] if one.error and "out of order" not in str(one.error)] == []
        assert self.batches("pyslash") == self.batches("spark")
        assert all(one.ran_on_pyslash for one in self.ran["pyslash"] if one.error is None)
        assert sum(len(rows) for _, rows in self.ran["spark"][-1].batches) == emitted


def query(stream: Stream) -> DataFrame:
    rows = stream.read().where("v > 0 OR ts IS NULL")  # Spark would have `v > 0` alone below the watermark
    return rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*"), F.sum("v"))


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    return Story(Stream(spark, tmp_path, SCHEMA, DELAY_SECONDS))


def test_after_a_start_that_failed_before_its_first_commit(story: Story) -> None:
    story.comes(OPEN).runs(fail_in=0).is_copied()
    story.comes(MORE, CLOSING).runs().is_put_back().runs()
    story.check(emitted=2)


def test_after_one_batch_without_rows(story: Story) -> None:
    story.comes(NOTHING).runs().is_copied()
    story.comes(OPEN, CLOSING).runs().is_put_back().runs()
    story.check(emitted=2)


def test_one_batch_behind_with_no_window_open(story: Story) -> None:
    story.comes(OPEN, CLOSING).runs().is_copied()
    story.comes(LATER).runs().is_put_back().runs().comes(LAST).runs()
    story.check(emitted=2)


@pytest.mark.parametrize("durability", ["checkpoint", "both"])
def test_one_batch_behind_with_windows_open(story: Story, durability: str) -> None:
    story.conf["durability"] = durability
    story.comes(OPEN).runs().is_copied()
    story.comes(MORE).runs().is_put_back().runs().comes(CLOSING).runs()
    story.check(emitted=2)


@pytest.mark.parametrize("durability", ["replica", "off"])
def test_state_in_memory_alone_does_not_go_back(story: Story, durability: str) -> None:
    story.conf["durability"] = durability
    story.comes(OPEN).runs().is_copied()
    story.comes(MORE).runs().is_put_back().runs()
    error = story.ran["pyslash"][-1].error
    assert "holds state of a later start, which the checkpoint was put back behind" in str(error)
    assert story.ran["pyslash"][-1].batches == []


def entries(*batches: int) -> list[str]:
    """Those that Spark's two logs have of them."""
    return [f"{log}/{batch}" for log in ("offsets", "commits") for batch in batches]


def test_the_last_batch_is_repeated_with_more_rows(story: Story) -> None:
    story.comes(OPEN).runs().comes(MORE).runs()  # each time a batch with rows, and one without
    story.is_cut(*entries(3)).comes(CLOSING).runs()
    story.check(emitted=2)


def test_several_batches_are_repeated_as_long_as_the_state_before_them_is_there(story: Story) -> None:
    story.comes(OPEN).runs().comes(MORE).runs()
    story.is_cut(*entries(2, 3)).comes(CLOSING).runs()
    story.check(emitted=2)


def test_the_first_batch_is_repeated(story: Story) -> None:
    story.comes(OPEN).runs().is_cut(*entries(0, 1)).comes(CLOSING)
    # Spark 4.3 would not begin at all where another log is left.
    with changed(story.stream.spark, {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}):
        story.runs()
    story.check(emitted=2)


def test_a_batch_whose_state_is_gone_is_refused_with_what_to_do(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "KEPT_SECONDS", 0)
    story.comes(OPEN, CLOSING).runs().comes(LATER).runs()
    manifests = story.checkpoint("pyslash") / "slash" / "manifests"
    before = sorted(manifests.iterdir())
    story.is_cut(*entries(2, 3, 4)).runs()
    error = str(story.ran["pyslash"][-1].error)
    assert "RewoundCheckpointError" in error
    assert "Spark continues from batch 1, and 1 of the 1 files of the state as of then are gone" in error
    assert "pyslash state list" in error
    assert story.ran["pyslash"][-1].batches == []
    assert sorted(manifests.iterdir()) == before


def test_state_in_memory_alone_is_not_repeated(story: Story) -> None:
    story.conf["durability"] = "replica"
    story.comes(OPEN).runs().is_cut(*entries(1)).comes(CLOSING).runs()
    error = str(story.ran["pyslash"][-1].error)
    assert "RewoundCheckpointError" in error
    assert "is in memory alone" in error
