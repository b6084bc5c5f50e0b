"""The Python beside the driver is killed at every point of an epoch, in an application that has it by the plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver.plugin_job import AT, ORDER
from tests.driver.test_plugin import JOB, write_source
from tests.faults.strike import DRIVER_POINTS
from tests.support.plugin import PLUGIN

HERE = Path(__file__).parent


@pytest.mark.chaos
def test_it_may_die_at_any_point_of_an_epoch_and_no_row_is_lost_doubled_or_wrong(tmp_path: Path) -> None:
    write_source(tmp_path / "source")
    settings = " ".join(f"--conf {name}={value}" for name, value in PLUGIN.items())
    (tmp_path / "order").write_text("nowhere\n0\n")
    environment = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell",
        "PYTHONPATH": os.pathsep.join(map(str, (HERE / "in_side_car", HERE.parents[1]))),
        ORDER: str(tmp_path / "order"),
    }
    cases = ["function", *(AT + point for point in DRIVER_POINTS)]
    done = subprocess.run(
        [sys.executable, str(JOB), str(tmp_path / "source"), str(tmp_path), *cases],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    report = json.loads((tmp_path / "report.json").read_text())
    expected = sorted(row for rows in report["function"]["off"].values() for row in rows)
    assert expected
    assert list(report["points"]) == list(DRIVER_POINTS)
    for point, found in report["points"].items():
        assert found["struck"], point
        assert "the Python process of pyslash has " in found["said"], point
        assert found["rows"] == expected, point
