"""The light laboratory in a small form: agents that are real, and figures that add up."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eval.scale import command
from eval.scale.gil import Sampler
from eval.scale.network import network

EXECUTORS, BLOCKS, TASKS, KEYS = 3, 2, 1, 2_000


def record(out: Path, *more: str) -> dict[str, Any]:
    """What the command writes."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = ["--executors", str(EXECUTORS), "--blocks", str(BLOCKS), "--tasks", str(TASKS), "--keys", str(KEYS)]
    assert command.main(parser.parse_args([*options, "--epochs", "1", "--out", str(out), *more])) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_its_figures_add_up(tmp_path: Path) -> None:
    found = record(tmp_path / "scale.json", "--no-fold")
    (row,) = found["rows"]
    assert row["executors"] == EXECUTORS
    assert row["calls"] == TASKS
    assert row["requests"] == EXECUTORS - 1  # each peer asks once, for all ranges of all blocks
    assert row["blocks"] == (EXECUTORS - 1) * BLOCKS * TASKS
    # All keys are in each block, 24 bytes and a little more a group, in eight segments. A third is in three or four.
    whole = (EXECUTORS - 1) * BLOCKS * TASKS * KEYS * 24
    assert row["megabytes"] * 1e6 == pytest.approx(whole * 3 / 8, rel=0.1)
    assert 0 < row["agent_cpu_ms"] <= row["most_agent_cpu_ms"]
    assert row["chain_ms"] > 0
    assert row["fold_ms"] == row["fold_cpu_ms"] == 0
    phases = [row[name] for name in ("driver_ms", "update_ms", "busiest_agent_ms", "merge_ms")]
    assert min(phases) > 0
    assert row["span_ms"] == pytest.approx(sum(phases))
    assert found["load"] == {"blocks": BLOCKS, "fold": False, "tasks": TASKS, "keys": KEYS}
    assert found["machine"]
    assert str(found["command"]).startswith("python -m eval")


def test_what_is_folded_is_read_once(tmp_path: Path) -> None:
    (row,) = record(tmp_path / "scale.json")["rows"]
    assert row["requests"] == EXECUTORS - 1
    # An agent has each key once, in eight segments or (with many cores, which have a block each) more.
    once = (EXECUTORS - 1) * TASKS * KEYS * 24
    assert once / EXECUTORS < row["megabytes"] * 1e6 < once * 4 / 8 * 1.1
    assert row["fold_ms"] > 0
    assert row["fold_cpu_ms"] > 0


def test_skewed_rows_make_updates_longer_and_nothing_else(tmp_path: Path) -> None:
    """That every row counts once, the command itself checks."""
    skewed = ["--executors", "5", "--rows", "400000", "--epochs", "3", "--skew", "executor", "key"]
    even, executor, key = record(tmp_path / "scale.json", *skewed)["rows"]
    assert [row["skew"] for row in (even, executor, key)] == ["even", "executor", "key"]
    assert executor["update_ms"] > 1.5 * even["update_ms"]  # 2.5 times the rows in as many tasks
    for row in (executor, key):
        assert row["blocks"] == even["blocks"]
        assert row["megabytes"] <= 1.01 * even["megabytes"]
        assert row["span_ms"] - row["update_ms"] < 2 * (even["span_ms"] - even["update_ms"])


def test_every_executor_has_its_own_network_or_it_is_said() -> None:
    with network(2, delay_ms=1) as made:
        if os.geteuid() != 0:
            assert "no network namespaces" in made.lacks[0]
            return
        reached = [
            subprocess.run(
                [*host.prefix, "ip", "-br", "addr", "show", "dev", "eth0"], capture_output=True, text=True, check=True
            )
            for host in made.hosts
        ]
        assert [host.address in done.stdout for host, done in zip(made.hosts, reached, strict=True)] == [True, True]
        spaces = [Path("/run/netns", host.prefix[1].rpartition("/")[2]) for host in made.hosts]
        assert all(space.exists() for space in spaces)
    assert not any(space.exists() for space in spaces)


def test_the_interpreter_s_lock_is_seen_from_outside() -> None:
    """One process that never releases it, and one that sleeps."""
    code = "import time\nprint(flush=True)\n"
    ends = ("while True: pass", "time.sleep(60)")
    processes = [subprocess.Popen([sys.executable, "-c", code + end], stdout=subprocess.PIPE) for end in ends]
    try:
        for one in processes:
            assert one.stdout is not None
            one.stdout.readline()
        sampler = Sampler([one.pid for one in processes])
        sampler.start()
        while sampler.looks < 50:
            pass
        busy, idle = sampler.stop().values()
    finally:
        for one in processes:
            one.kill()
            one.communicate()
    assert busy > 0.9
    assert idle < 0.1


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_a_killed_network_is_gone_before_the_next() -> None:
    """Its bridge had the same addresses, and packets of the next network went there."""
    code = "import os\nfrom eval.scale.network import network\n"
    code += "with network(2, driver=True): print(os.getpid(), flush=True), os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    name = f"ps{int(killed.stdout)}"

    def left() -> list[str]:
        return [one for folder in ("/sys/class/net", "/run/netns") for one in os.listdir(folder) if name in one]

    assert len(left()) == 5  # a bridge, two links to it, two namespaces
    with network(1, driver=True):
        assert left() == []
        with pytest.raises(RuntimeError, match="wait for its end"), network(1, driver=True):
            pass
