"""A notebook in a real kernel of Jupyter, with the plugin in its settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver.plugin_job import SETTINGS
from tests.driver.test_plugin import write_source
from tests.support.plugin import PLUGIN

JUPYTER = Path(__file__).parents[2] / "build" / "clients" / "jupyter"
NOTEBOOK = Path(__file__).with_name("notebook.py")


def test_cells_get_what_plain_spark_gives_and_may_be_interrupted(tmp_path: Path) -> None:
    if not (JUPYTER / ".complete").exists():
        pytest.skip("no kernel of Jupyter (scripts/clients.sh fetches it), so no notebook was run")
    write_source(tmp_path / "source")
    settings = {**SETTINGS, **PLUGIN, "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    done = subprocess.run(
        [sys.executable, str(NOTEBOOK), str(tmp_path / "source"), str(tmp_path), json.dumps(settings)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(JUPYTER), "JUPYTER_RUNTIME_DIR": str(tmp_path / "jupyter")},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["require"] == report["off"]
    assert [len(rows) > 0 for rows in report["off"]["batches"].values()] == [True, True, True, False]
    assert report["off"]["interrupted"] == "KeyboardInterrupt"
    assert any(report["off"]["afterwards"].values()), "the query lives on"
    for name in ("require", "require-interrupted"):
        assert (tmp_path / name / "slash").is_dir()
        assert not (tmp_path / name.replace("require", "off") / "slash").exists()
