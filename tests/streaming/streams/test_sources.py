"""Each source gives the rows of the case: a reader that understood nothing would give nulls, and these are equal."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.streaming.streams.case import POOLS, Case, File, Source
from tests.streaming.streams.cells import FILES, Cell
from tests.streaming.streams.compare import same
from tests.streaming.streams.draw import draw
from tests.streaming.streams.run import SECONDS
from tests.streaming.streams.sources import feed, kinds_of, write


def of_every_value(source: str) -> Case:
    """Two batches with each value of each type, and nulls."""
    kinds = kinds_of(source)
    pools = [POOLS[kind][2] for kind in kinds]
    rows: File = tuple(
        (None if i == 2 else i * 999_999, *(values[i] if i < len(values) else None for values in pools))
        for i in range(max(map(len, pools)))
    )
    columns = tuple(f"v_{kind}" for kind in kinds)
    sources = (Source(None, 1, ((rows[:3],), (rows[3:],))),)
    return replace(draw(0), cell=Cell(source, "nothing", "keys", "update"), columns=columns, sources=sources)


def rows_of(spark: SparkSession, case: Case, folder: Path, servers: str = "") -> list[Any]:
    """What the source gives to a stream, in the sequence of the event times."""
    (folder / "in").mkdir(parents=True)
    write(case, folder / "files")
    fed = feed(case, 0, folder / "files", folder / "in", servers)
    found: list[Any] = []

    def keep(rows: DataFrame, _: int) -> None:
        found.extend(rows.collect())

    for batch in range(len(case.sources[0].batches)):
        fed.add(batch)
        writer = fed.read(spark).writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(SECONDS)
    return sorted(found, key=repr)


@pytest.mark.parametrize("source", FILES)
def test_a_source_gives_the_rows_of_the_case(spark: SparkSession, tmp_path: Path, source: str) -> None:
    check(spark, of_every_value(source), tmp_path)


def check(spark: SparkSession, case: Case, folder: Path, servers: str = "") -> None:
    """Value by value."""
    parquet = replace(case, cell=replace(case.cell, source="parquet"))
    found, wanted = rows_of(spark, case, folder / "a", servers), rows_of(spark, parquet, folder / "b")
    is_csv = case.cell.source in ("csv", "kafka binary")
    assert len(found) == len(wanted) == case.rows
    for name in ("ts", *case.columns):
        values = [row[name] for row in wanted]
        if is_csv and name == "v_binary":  # the text, and nothing is null
            values = [base64.b64encode(value) if value else None for value in values]
        elif is_csv and name == "v_string":
            values = [value or None for value in values]
        assert _all_same([_plain(row[name]) for row in found], [_plain(value) for value in values]), name


def _all_same(found: list[Any], wanted: list[Any]) -> bool:
    one, other = sorted(found, key=repr), sorted(wanted, key=repr)
    return len(one) == len(other) and all(map(same, one, other))


def _plain(value: Any) -> Any:
    """Releases of PySpark differ in how they give binary values."""
    return bytes(value) if isinstance(value, bytearray) else value
