"""A job of `examples/`, run as its users run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.plugin import PLUGIN

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, source: Path, folder: Path, *arguments: str, **conf: str) -> Path:
    """Run the job over the files of `source`, one a micro-batch, on pyslash; the folder of its result.

    `conf` is of spark.slash.*.
    """
    settings = {**PLUGIN, **{f"spark.slash.{key}": value for key, value in {"mode": "require", **conf}.items()}}
    options = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    output, checkpoint = folder / "out", folder / "checkpoint"
    folders = ["--input", str(source), "--output", str(output), "--checkpoint", str(checkpoint)]
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *folders, "--files-per-trigger", "1", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (checkpoint / "slash").is_dir()
    return output
