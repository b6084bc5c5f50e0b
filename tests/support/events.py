"""Input for update tasks, and applications of their own for tests that need another master than the shared one."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

ROWS = 200_000


@pytest.fixture(scope="session")
def application_secret() -> bytes:
    """One for all update jobs of the shared session."""
    return secrets.token_bytes(32)


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Parquet folder of 4 files: t timestamp, k bigint (some null), v bigint, s string, d decimal(30,2)."""
    folder = tmp_path_factory.mktemp("events") / "in"
    folder.mkdir()
    random = np.random.default_rng(7)
    for part in range(4):
        count = ROWS // 4
        keys = pa.array(random.integers(0, 1000, count), pa.int64(), mask=random.random(count) < 0.01)
        columns = {
            "t": pa.array(random.integers(0, 60_000_000, count), pa.timestamp("us", "UTC")),
            "k": keys,
            "v": pa.array(random.integers(-100, 100, count), pa.int64()),
            "s": pc.binary_join_element_wise("key", pc.cast(keys, pa.string()), "-"),
            "d": pa.array(random.integers(-(10**12), 10**12, count)).cast(pa.decimal128(30, 2)),
        }
        pq.write_table(pa.table(columns), folder / f"{part}.parquet")
    return str(folder)


def run_application(program: str, *arguments: str, timeout: float = 900) -> str:
    """Standard output of a Python program in a process of its own: there is one Spark application in each."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        text=True,
        capture_output=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout
