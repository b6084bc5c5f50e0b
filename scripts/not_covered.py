"""Print what a test run did not cover: `python scripts/not_covered.py REPORT`, the report in JUnit's XML."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

DEVICES = Path("/sys/class/infiniband")


def skipped(report: Path) -> Counter[str]:
    """How many tests were skipped, by reason."""
    reasons: Counter[str] = Counter()
    for element in ElementTree.parse(report).iter("skipped"):
        reasons[element.get("message") or "no reason given"] += 1
    return reasons


def lines(report: Path, devices: Path = DEVICES) -> list[str]:
    """What to tell: one line for RDMA where the machine has no device, one for each reason of a skip."""
    told = []
    if not devices.is_dir() or not any(devices.iterdir()):
        told.append("RDMA: this machine has no RDMA device, so no test has gone through the verbs transport")
    if not report.exists():
        return [*told, f"pytest: it wrote no report ({report})"]
    told += [f"{count} skipped: {reason}" for reason, count in sorted(skipped(report).items())]
    return told


def main() -> None:
    """Print the frame that nobody overlooks."""
    told = lines(Path(sys.argv[1]))
    print(f"\n{' NOT COVERED by this run ':=^100}")
    for line in told or ["nothing: every test ran"]:
        print(f"  {line}")
    print("=" * 100)


if __name__ == "__main__":
    main()
