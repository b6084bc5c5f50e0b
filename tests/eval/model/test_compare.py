"""Predictions beside measurements: of kernels, of clusters, of Slash."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from eval.model import command, compare, inputs
from eval.model.costs import late_merge
from eval.model.inputs import SHARED_MEMORY, Link, Load, Nodes
from eval.records import Results
from tests.eval.model.rates import RATES
from tests.eval.model.test_inputs import BENCHMARKS
from tests.eval.report.lines import run


def cluster(nodes: int, ms: float, engine: str = "slash") -> dict:
    workload = {"rows": 4_000_000 * nodes, "batches": 4, "span_s": 40.0, "keys": 1000, "window_s": 10}
    conf = {"spark.executor.cores": "2"}
    more = {"nodes": nodes, "scaling": "weak", "title": f"weak {nodes}", "conf": conf, "batch_ms": [ms] * 4}
    return run(engine, 1e6, workload=workload, **more)


def test_whole_strategies_follow_from_their_parts() -> None:
    checks = {(check.what.split(" executors")[0], check.unit): check for check in compare.kernels(RATES, BENCHMARKS)}
    two, sixteen = (checks[f"ysb_merge, 10,000 keys, {count}", "cycles/row"] for count in (2, 16))
    assert two.predicted == pytest.approx(20 + 20_000 * (30 + 10) / (1 << 21))
    # 10,000 groups are 64 segments: each of 16 owners reads what it wants.
    merged = 160_000 * (30 + 10) / (1 << 21)
    assert sixteen.predicted == pytest.approx(20 + merged, rel=1e-4)
    assert sixteen.off == pytest.approx(sixteen.predicted / 25)
    assert not sixteen.given
    assert checks["ysb_merge, 10,000 keys, 16", "bytes/row"].predicted == pytest.approx(0.25 * 8, rel=1e-4)
    repartition = checks["ysb_repartition, 10,000 keys, 2", "cycles/row"]
    assert (repartition.predicted, repartition.given) == (70, True)


def test_a_cluster_is_fitted_to_its_first_step_and_predicted_from_there() -> None:
    one, two = compare.clusters(RATES, Results([cluster(1, 400.0), cluster(2, 440.0)], []))
    assert one.given
    assert one.predicted == pytest.approx(400)
    assert not two.given
    # Rows a node stay; what is added is the other node's blocks and tasks.
    assert 400 < two.predicted < 410
    assert "2 nodes" in str(two)


def test_runs_on_one_machine_give_rates() -> None:
    few = run("slash", 1e4, title="few", batch_ms=[150] * 9, workload={"rows": 9_000, "batches": 9})
    many = run("slash", 2e6, title="many", batch_ms=[1150] * 4, workload={"rows": 8_000_000, "batches": 4})
    rates = compare.of_runs(RATES, Results([few, many, cluster(1, 1.0)], []))
    assert rates.epoch_s == pytest.approx(0.15)
    # A second of two cores for two million rows, of which the accumulator takes 50 cycles of 1 ns each.
    assert rates.ingest_s == pytest.approx(1e-6 - 50e-9)
    assert compare.of_runs(RATES, Results([run("spark-hdfs", 1e6)], [])) == RATES


def test_engines_that_the_model_does_not_know_are_left_out() -> None:
    assert compare.clusters(RATES, Results([cluster(1, 400.0, "spark-rocksdb"), run("slash", 1e6)], [])) == []


def test_the_shape_of_an_epoch_is_that_of_the_workload() -> None:
    (comparison,) = Results([cluster(2, 400.0)], []).comparisons
    fitted = compare.fit(RATES, SHARED_MEMORY, 2, comparison, comparison.engines["slash"], "slash")
    predicted = late_merge(fitted, SHARED_MEMORY, Nodes(2, 2), Load(1_000_000, 1000, 1.0))
    assert predicted.seconds == pytest.approx(0.4)


def test_the_published_ratio_is_said_in_cycles() -> None:
    text = "\n".join(compare.published(RATES, Link(), 16))
    assert "6.8 to 12.3x" in text
    assert "360 to 652" in text
    assert "ours spends 130" in text


def test_the_command_prints_checks_and_writes_plot_and_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates, kernels, results = (tmp_path / name for name in ("rates.json", "kernels.json", "results.jsonl"))
    inputs.save(rates, RATES, {})
    kernels.write_text(json.dumps({"context": {"mhz_per_cpu": 2000}, "benchmarks": BENCHMARKS}))
    results.write_text("".join(json.dumps(cluster(nodes, 400.0)) + "\n" for nodes in (1, 2)))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    words = ["--rates", str(rates), "--kernels", str(kernels), "--results", str(results)]
    words += ["--save", str(tmp_path / "new.json"), "--plot", str(tmp_path / "plot.svg")]
    assert command.main(parser.parse_args(words)) == 0
    printed = capsys.readouterr().out
    assert "1024 tree" in printed
    assert "16 executors on one core" in printed
    assert "slash, weak scaling, 2 nodes" in printed
    assert inputs.load(tmp_path / "new.json").hz == 2e9
    assert (tmp_path / "plot.svg").read_text().count("<svg") == 1
    assert command.main(parser.parse_args(["--rates", str(tmp_path / "none.json")])) == 2
