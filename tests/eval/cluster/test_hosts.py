"""The host file."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.cluster.hosts import Host, HostFileError, read_hosts


def test_hosts_are_read_in_order(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# the rack\nnode1 slots=32 device=mlx5_0\n\nnode2 slots=16 address=10.1.0.2 # slower\n")
    first, second = read_hosts(file)
    assert first == Host("node1", 32, "mlx5_0")
    assert str(first) == "node1 (32 slots, mlx5_0)"
    assert (first.listens, second.listens) == ("node1", "10.1.0.2")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "names no host"),
        ("node1", r"line 1: slots=\(missing\)"),
        ("node1 slots=0", "1 or more"),
        ("node1 slots=many", "slots=many"),
        ("a slots=1\na slots=2", "line 2: a is there twice"),
        ("a slots=1 cores=2", "cores is not known"),
        ("-oProxyCommand=x slots=1", "no host name"),
        ("slots=4", "no host name"),
    ],
)
def test_a_wrong_line_says_what_is_wanted(tmp_path: Path, text: str, wanted: str) -> None:
    file = tmp_path / "hosts"
    file.write_text(text)
    with pytest.raises(HostFileError, match=wanted):
        read_hosts(file)
