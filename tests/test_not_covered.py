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
RDMA = """<testsuites><testsuite><properties><property name="rdma_device" value="rxe0/1"/>
<property name="rdma_hosts" value="2"/><property name="kernel" value="6.1"/></properties>
<testcase classname="tests.rdma.test_read"/><testcase classname="tests.rdma.test_read"><failure/></testcase>
<testcase classname="tests.plan.test_window"/></testsuite></testsuites>"""


def test_skips_are_counted_by_reason(tmp_path: Path) -> None:
    report, lab = tmp_path / "pytest.xml", tmp_path / "rdma.xml"
    report.write_text(REPORT)
    lab.write_text(RDMA)
    assert not_covered.missing([report, lab]) == ["2 skipped: no device"]
    assert not_covered.rdma(lab) == "RDMA: 1 of 2 tests passed on rxe0/1, 2 host(s), Linux 6.1"


def test_no_device_and_no_report_are_told(tmp_path: Path) -> None:
    told = not_covered.missing([tmp_path / "none.xml", tmp_path / "no lab.xml"])
    assert [line.split(":")[0] for line in told] == ["RDMA", "pytest"]
    report = tmp_path / "pytest.xml"
    report.write_text(REPORT)
    assert not_covered.missing([report])[0].startswith("RDMA: this machine has no RDMA device")


def test_a_file_that_cannot_be_collected_is_told(tmp_path: Path) -> None:
    report, lab = tmp_path / "pytest.xml", tmp_path / "rdma.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="tests.a"><error message="?"/></testcase></testsuite></testsuites>'
    )
    lab.write_text(RDMA)
    assert not_covered.missing([report, lab]) == ["1 tests or files of tests could not be set up: see the errors above"]


def test_failures_are_told_again_with_the_first_line_of_why(tmp_path: Path) -> None:
    report = tmp_path / "pytest.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="test_b[1]"><failure message="lost&#10;more"/>'
        '</testcase><testcase classname="tests.a" name="test_c"/>'
        '<testcase name="tests.d"><error message="?"/></testcase>'
        "</testsuite></testsuites>"
    )
    assert not_covered.failed(report) == ["tests.a::test_b[1]: lost", "tests.d: ?"]
