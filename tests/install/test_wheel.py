"""The wheel, installed where nothing of the checkout is and nothing can be compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_an_environment_without_a_compiler_runs_the_demo(tmp_path: Path) -> None:
    # The Python that the tests' own environment was made of: `python3.11` need not be on the PATH.
    path = f"{Path(sys.base_prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    subprocess.run([ROOT / "scripts" / "wheels.sh", VERSION], env={**os.environ, "PATH": path}, check=True)
    tag = f"cp{VERSION.replace('.', '')}"
    (wheel,) = (ROOT / "dist").glob(f"pyslash-*-{tag}-{tag}-manylinux_2_28_x86_64.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    alone |= {"PATH": f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}", "CC": "false", "CXX": "false"}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    run("pip", "install", "--quiet", f"{wheel}[demo]")
    where = run("python", "-c", "import pyslash; print(pyslash.__file__)")
    assert where.startswith(str(tmp_path))
    assert "identical" in run("pyslash", "demo", "--files", "40", "--limit", "40000", "--years", "0")
