"""Variations of streams: each is drawn, and leaves what it does not vary as it was drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.streaming.streams.case import Case
from tests.streaming.streams.cells import FILES
from tests.streaming.streams.draw import draw
from tests.streaming.streams.shrink import simpler
from tests.streaming.streams.variations import VARIATIONS, above, parts, spelling

SEEDS = range(200)


@pytest.mark.parametrize("variation", VARIATIONS)
def test_a_variation_leaves_the_stream_its_cell(variation: Callable[[random.Random, Case], Case]) -> None:
    cases = [draw(seed) for seed in SEEDS]
    varied = [variation(random.Random(case.seed), case) for case in cases]
    assert sum(one != case for one, case in zip(varied, cases, strict=True)) > len(cases) // 10
    assert [(one.seed, one.cell, one.mode, one.batches) for one in varied] == [
        (case.seed, case.cell, case.mode, case.batches) for case in cases
    ]


def test_what_stands_above_is_of_each_kind() -> None:
    kinds = {step[0] for seed in SEEDS for step in above(random.Random(seed), draw(seed)).above}
    assert kinds >= {"static", "repartition", "frames", "udf", "explode", "limit", "sort"}


def test_files_in_folders_with_other_names_have_the_columns_of_the_query() -> None:
    case = next(case for case in map(draw, SEEDS) if case.cell.source == "parquet" and case.columns)
    varied = replace(parts(random.Random(2), replace(case, keys=())), spelling="dot")
    assert varied.schema().names == ["a.ts", *(f"a.{name}" for name in case.columns)]
    assert varied.ddl().startswith("`a.ts` timestamp, ")
    assert varied.ddl().endswith(", b int, p int")


def test_what_varies_a_stream_is_dropped_where_it_fails_without() -> None:
    case = next(case for case in map(draw, SEEDS) if case.cell.source == FILES[0] and not case.parts)
    varied = parts(random.Random(1), spelling(random.Random(1), case))
    assert varied.parts
    assert any(not one.parts and "p" not in one.keys for one in simpler(varied))
