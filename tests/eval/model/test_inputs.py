"""Where rates come from: the committed file, google-benchmark's counters, this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.model import inputs, probe
from eval.model.inputs import InputError
from tests.eval.model.rates import RATES

BENCHMARKS = [
    {"name": "update_columns/ysb_count/10000", "cycles/record": 20.0},
    {"name": "update_columns/sum_count_max/100000", "cycles/record": 33.0},
    {"name": "seal_groups/100000", "cycles/record": 30.0},
    {"name": "merge_blocks/100000", "cycles/record": 10.0},
    {"name": "strategy/ysb_merge/10000/2", "cycles/record": 21.0, "bytes/record": 0.25},
    {"name": "strategy/ysb_merge/10000/16", "cycles/record": 25.0, "bytes/record": 2.0},
    {"name": "strategy/ysb_repartition/10000/2", "cycles/record": 70.0, "until sealed": 40.0, "to result": 30.0}
    | {"bytes/record": 24.5},
]


def test_the_committed_rates_say_where_they_come_from() -> None:
    rates = inputs.load()
    assert all(value > 0 for value in vars(rates).values())
    sources = json.loads(inputs.MEASURED.read_text())["sources"]
    assert {"measured", "machine", "command"} <= sources.keys()


def test_kernels_take_the_place_of_rates() -> None:
    rates = inputs.of_kernels(RATES, BENCHMARKS)
    assert (rates.update, rates.seal, rates.merge, rates.partition, rates.own) == (20, 30, 10, 40, 30)
    assert rates.row_bytes == 24.5
    assert rates.group_bytes == pytest.approx(0.25 * (1 << 21) / 20_000)
    assert rates.ingest_s == RATES.ingest_s


def test_repetitions_count_by_their_median() -> None:
    name = {"name": "seal_groups/100000"}
    three = [{**name, "run_type": "iteration", "cycles/record": value} for value in (9.0, 1.0, 2.0)]
    spread = {"name": "seal_groups/100000_cv", "run_type": "aggregate", "cycles/record": 0.1}
    assert inputs.medians([*three, spread]) == {"seal_groups/100000": {"cycles/record": 2.0}}


def test_a_missing_benchmark_is_named() -> None:
    with pytest.raises(InputError, match="merge_blocks"):
        inputs.of_kernels(RATES, [bench for bench in BENCHMARKS if "merge_blocks" not in str(bench["name"])])


def test_rates_survive_a_file_and_a_gap_in_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rates.json"
    inputs.save(file, RATES, {"machine": "here"})
    assert inputs.load(file) == RATES
    whole = json.loads(file.read_text())
    del whole["rates"]["seal"]
    file.write_text(json.dumps(whole))
    with pytest.raises(InputError, match=r"rates\.json lacks seal"):
        inputs.load(file)


def test_a_block_is_probed_here() -> None:
    rates = probe.blocks(RATES)
    assert 1e-8 < rates.head_s < 1e-2
    assert 1e-8 < rates.read_s < 1e-1
    assert rates.skip > 0
