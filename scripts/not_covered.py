"""Print what a test run did not cover, then what failed: `python scripts/not_covered.py REPORT RDMA_REPORT OTHERS...`.

Reports are JUnit's XML. The RDMA tests run where a device is: on this machine (then they are in REPORT), or in the lab
(RDMA_REPORT).
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def skipped(report: Path) -> Counter[str]:
    """How many tests were skipped, by reason."""
    reasons: Counter[str] = Counter()
    for element in ElementTree.parse(report).iter("skipped"):
        reasons[element.get("message") or "no reason given"] += 1
    return reasons


def broken(report: Path) -> int:
    """How many tests, or whole files of tests, ended in an error before they could tell anything."""
    return sum(1 for _ in ElementTree.parse(report).iter("error"))


def failed(report: Path) -> list[str]:
    """Each test that failed or broke, and the first line of why."""
    told = []
    for case in ElementTree.parse(report).iter("testcase"):
        for bad in (*case.findall("failure"), *case.findall("error")):
            why = (bad.get("message") or "").partition("\n")[0]
            name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
            told.append(f"{name}: {why[:500]}")
    return told


def rdma(report: Path) -> str | None:
    """How many tests went through a device, which one, on how many hosts; None if none did."""
    if not report.exists():
        return None
    tree = ElementTree.parse(report)
    properties = {element.get("name"): element.get("value") for element in tree.iter("property")}
    if "rdma_device" not in properties:
        return None
    cases = [
        case
        for case in tree.iter("testcase")
        if (case.get("classname") or "").startswith(("tests.rdma.", "tests.inspect.doctor."))
    ]
    passed = sum(1 for case in cases if not any(case.findall(bad) for bad in ("skipped", "failure", "error")))
    return (
        f"RDMA: {passed} of {len(cases)} tests passed on {properties['rdma_device']}, "
        f"{properties['rdma_hosts']} host(s), Linux {properties['kernel']}"
    )


def missing(reports: list[Path]) -> list[str]:
    """What to tell: RDMA if no test went through a device, then errors, then each reason of a skip."""
    told = []
    if not any(rdma(report) for report in reports):
        told.append(
            "RDMA: this machine has no RDMA device and the lab did not run, so no test has gone through the verbs "
            "transport"
        )
    if not reports[0].exists():
        told.append(f"pytest: it wrote no report ({reports[0]})")
    for report in reports:
        if report.exists():
            if count := broken(report):
                told.append(f"{count} tests or files of tests could not be set up: see the errors above")
            told += [f"{count} skipped: {reason}" for reason, count in sorted(skipped(report).items())]
    return told


def main() -> None:
    """Print the frame that nobody overlooks."""
    reports = [Path(argument) for argument in sys.argv[1:]]
    print()
    for line in filter(None, map(rdma, reports)):
        print(line)
    print(f"{' NOT COVERED by this run ':=^100}")
    for line in missing(reports) or ["nothing: every test ran"]:
        print(f"  {line}")
    print("=" * 100)
    for report in filter(Path.exists, reports):
        for line in failed(report):
            print(f"FAILED {line}")


if __name__ == "__main__":
    main()
