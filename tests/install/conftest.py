"""Wheels, and an empty Debian to install them in."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.install.debian import Debian

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel() -> Callable[[str], Path]:
    """`make wheels ARGS=TAG`, and what came out."""

    def build(tag: str) -> Path:
        done = subprocess.run(["make", "wheels", f"ARGS={tag}"], cwd=ROOT, capture_output=True, text=True, check=False)
        if "NOT BUILT" in done.stderr:
            pytest.skip(f"no wheel {tag}: {done.stderr.partition('NOT BUILT: ')[2].strip()}")
        assert done.returncode == 0, done.stderr
        (found,) = (ROOT / "dist").glob(f"pyslash_streaming-*-{tag}-*.whl")
        return found

    return build


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Debian]:
    """One of this test's own; a skip that says so where there can be none."""
    made = subprocess.run(["scripts/debian.sh"], cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(made.stderr.strip().removeprefix("debian: "))
    subprocess.run(["cp", "-a", str(ROOT / "build" / "debian"), str(tmp_path / "debian")], check=True)
    yield Debian(tmp_path / "debian")
    shutil.rmtree(tmp_path / "debian")  # a gigabyte
