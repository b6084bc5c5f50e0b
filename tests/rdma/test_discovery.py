"""The script by which Spark finds RDMA ports."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "spark-conf" / "discover_rdma.sh"


def discovered(sysfs: Path) -> object:
    return json.loads(subprocess.run([str(SCRIPT), str(sysfs)], capture_output=True, check=True).stdout)


def test_active_ports_are_listed(tmp_path: Path) -> None:
    for device, number, state in [("mlx5_0", 1, "4: ACTIVE"), ("mlx5_0", 2, "1: DOWN"), ("rxe0", 1, "4: ACTIVE")]:
        port = tmp_path / device / "ports" / str(number)
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
    assert discovered(tmp_path) == {"name": "rdma", "addresses": ["mlx5_0:1", "rxe0:1"]}


def test_no_device_is_an_empty_list(tmp_path: Path) -> None:
    assert discovered(tmp_path / "none") == {"name": "rdma", "addresses": []}
