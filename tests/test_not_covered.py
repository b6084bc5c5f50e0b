"""What `make test` says at its end about tests that did not run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "not_covered.py"
spec = importlib.util.spec_from_file_location("not_covered", SCRIPT)
assert spec is not None
assert spec.loader is not None
not_covered = importlib.util.module_from_spec(spec)
spec.loader.exec_module(not_covered)

REPORT = """<testsuites><testsuite><testcase><skipped message="no device"/></testcase><testcase/>
<testcase><skipped message="no device"/></testcase></testsuite></testsuites>"""


def test_skips_are_counted_by_reason(tmp_path: Path) -> None:
    report, devices = tmp_path / "pytest.xml", tmp_path / "infiniband"
    report.write_text(REPORT)
    (devices / "mlx5_0").mkdir(parents=True)
    assert not_covered.lines(report, devices) == ["2 skipped: no device"]


def test_a_machine_without_a_device_and_a_run_without_a_report_are_told(tmp_path: Path) -> None:
    told = not_covered.lines(tmp_path / "none.xml", tmp_path / "none")
    assert [line.split(":")[0] for line in told] == ["RDMA", "pytest"]
