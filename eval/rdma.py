"""READ bandwidth and latency of our transport beside perftest's, on the same device in the same run, by message size.

    python -m eval.rdma [--out FILE]        on a machine with an RDMA device, or in the lab (make bench-rdma)

The peer is on the lab's other host if there is one, else on this host. perftest (ib_read_bw, ib_read_lat) is C on
libibverbs, so what it leaves is what the device can do: the better of its polling and its sleeping on events, with as
many requests posted and READs outstanding as ours. Medians of three turns of all of them. `pipeline` is our pipeline on
pyverbs with messages of that size, `pyverbs` the least that pyverbs can do: a prepared request posted, its completion
polled, and nothing else. `read` is a whole Transport.read of one range of that size with its check of the block's
header; shm and tcp are beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from eval.bars import Bar
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.process import boot_id
from pyslash.protocol.token import query_token
from pyslash.rdma.device import Device
from pyslash.rdma.port import choose_port
from pyslash.rdma.transfer import Piece
from pyslash.rdma.work_request import work_request
from pyslash.transport import Transports
from pyslash.transport.verbs import VerbsTransport
from tests.agent.blocks import QUERY
from tests.rdma.peer import HOSTS, ON, OTHER, SELF, Peer, peer
from tests.rdma.raw_block import HEADER_BYTES

MIB = 1 << 20
SIZES = (64, 4096, 64 << 10, MIB)
BLOCK_BYTES = 32 * MIB
ROUNDS = 3  # everything in turns, of which the medians count
# Bars: of ib_read_bw's bandwidth with messages of 1 MiB, and of ib_read_lat's latency with messages of 64 bytes.
LEAST_BANDWIDTH = 0.9
MOST_LATENCY = 3.0
_CONNECT_SECONDS = 60
_DEADLINE_SECONDS = 120


def perftest(program: str, device: Device, size: int, iterations: int) -> float:
    """MiB/s of ib_read_bw, or microseconds (typical) of ib_read_lat: the better of polling and of events."""
    port = device.port
    options = ["-d", port.device, "-i", str(port.number), "-x", str(port.gid_index), "-s", str(size), "-F"]
    options += ["-n", str(iterations), "-o", str(device.initiator_depth)]
    if program == "ib_read_bw":
        options += ["-t", str(device.max_in_flight)]
    best = max if program == "ib_read_bw" else min
    return best(_perftest([program, *options, *events], size) for events in ([], ["-e"]))


def _perftest(command: list[str], size: int) -> float:
    remote = [str(ON), "host2", *command] if HOSTS > 1 else command
    server = subprocess.Popen(remote, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            client = [*command, OTHER if HOSTS > 1 else SELF]
            done = subprocess.run(client, capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False)
            if done.returncode == 0:
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} failed: {done.stdout[-500:]} {done.stderr[-500:]}")
            time.sleep(0.5)  # the server is another process, of which nothing tells that it listens
        server.wait(_CONNECT_SECONDS)
    finally:
        server.kill()
        server.wait()
    rows = re.findall(rf"^\s*{size}\s+\d+\s+(.*)$", done.stdout, re.MULTILINE)
    columns = [float(word) for word in rows[-1].split()]
    return columns[1] if command[0] == "ib_read_bw" else columns[2]


def median_seconds(act: Callable[[], object], repeats: int) -> float:
    """Of some calls; the first one is not counted."""
    act()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def pipeline(transport: VerbsTransport, remote: Peer, size: int, messages: int) -> Callable[[], None]:
    """READs that many messages of `size` out of the big block, by the transport's own connection."""
    offset, _ = remote.blocks[0]
    known = transport._connected_peer(remote.descriptor)
    lease = known._hub.landing.acquire(size * messages)
    assert known._connection is not None
    landing, source = lease.slab.address, known._connection.address + offset
    pieces = [Piece(landing + at * size, source + at * size, size) for at in range(messages)]
    deadline = time.monotonic() + ROUNDS * _DEADLINE_SECONDS

    def move(connection: Any) -> None:
        # By the lease, which has to live as long as READs land in its slab.
        connection.mover.move("IBV_WR_RDMA_READ", pieces, lease.slab.lkey, connection.rkey, "eval", deadline)

    return partial(known._with_connection, move, deadline)


def pyverbs_floor(transport: VerbsTransport, remote: Peer, size: int) -> float:
    """Microseconds of one READ by pyverbs alone, on the transport's own connection."""
    offset, _ = remote.blocks[0]
    known = transport._connected_peer(remote.descriptor)
    lease = known._hub.landing.acquire(size)
    connection = known._connection
    assert connection is not None
    pair, completions, verbs = connection._pair.verbs_qp, connection._completions, known._hub.device.verbs
    request, entry = work_request(verbs)
    entry.addr, entry.length, entry.lkey = lease.slab.address, size, lease.slab.lkey
    request.opcode, request.send_flags = verbs.constant("IBV_WR_RDMA_READ"), verbs.constant("IBV_SEND_SIGNALED")
    request.set_wr_rdma(connection.rkey, connection.address + offset)

    def act() -> None:
        pair.post_send(request)
        while (completion := completions.take()) is None:
            pass
        assert not completion[1]

    return median_seconds(act, 200) * 1e6


def measure(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """A record for each size."""
    secret = secrets.token_bytes(32)
    records = []
    with peer(secret, 2 * BLOCK_BYTES, [BLOCK_BYTES]) as remote:
        token = query_token(secret, QUERY)
        verbs = VerbsTransport(QUERY, token, _DEADLINE_SECONDS)
        if obstacle := verbs.unreachable(remote.descriptor):
            raise RuntimeError(obstacle)
        others = Transports(QUERY, token, _DEADLINE_SECONDS)
        near = AgentDescriptor(**{**remote.descriptor.to_record(), "boot_id": boot_id()})
        offset, _ = remote.blocks[0]
        device = verbs._connected_peer(remote.descriptor)._hub.device
        for size in sizes:
            messages = max(8, min(256, BLOCK_BYTES // size // 2))
            ranges = [(HEADER_BYTES, size)]
            bulk, single = (pipeline(verbs, remote, size, count) for count in (messages, 1))
            rounds = [
                {
                    "perftest_mib_s": perftest("ib_read_bw", device, size, max(messages, 100)),
                    "pipeline_mib_s": size * messages / MIB / median_seconds(bulk, 7),
                    "perftest_us": perftest("ib_read_lat", device, size, 200),
                    "pyverbs_us": pyverbs_floor(verbs, remote, size),
                    "pipeline_us": median_seconds(single, 200) * 1e6,
                    "read_us": median_seconds(partial(verbs.read, remote.descriptor, offset, ranges), 100) * 1e6,
                }
                for _ in range(ROUNDS)
            ]
            record: dict[str, Any] = {"bytes": size}
            record |= {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
            for name, descriptor in ([("shm", near)] if HOSTS == 1 else []) + [("tcp", remote.descriptor)]:
                other = others.choose(descriptor, name).transport
                read = partial(other.read, descriptor, offset, ranges)
                record[f"{name}_us"] = median_seconds(read, 20) * 1e6
            records.append(record)
        verbs.close()
        others.close()
    return records


def table(records: list[dict[str, Any]]) -> str:
    """One line a size: bandwidths in MiB/s and their ratio, then microseconds of one READ."""
    names = ("shm_us", "tcp_us")
    there = [name for name in names if name in records[0]]
    titles = ["bytes", "ib_read_bw", "pipeline", "ratio", "ib_read_lat", "pyverbs", "pipeline", "ratio", "read"]
    titles += [name.removesuffix("_us") for name in there]
    lines = [" ".join(f"{title:>11}" for title in titles)]
    for record in records:
        figures = [
            record["perftest_mib_s"],
            record["pipeline_mib_s"],
            record["pipeline_mib_s"] / record["perftest_mib_s"],
        ]
        figures += [record["perftest_us"], record["pyverbs_us"], record["pipeline_us"]]
        figures += [record["pipeline_us"] / record["perftest_us"]]
        figures += [record["read_us"], *(record[name] for name in there)]
        lines.append(f"{record['bytes']:>11} " + " ".join(f"{figure:>11.2f}" for figure in figures))
    return "\n".join(lines)


def bars(records: list[dict[str, Any]]) -> list[Bar]:
    """What the transport is held to, as far as the sizes were measured."""
    found = []
    for record in records:
        if record["bytes"] == MIB:
            bandwidth = record["pipeline_mib_s"] / record["perftest_mib_s"]
            what = "READ of 1 MiB: of ib_read_bw's bandwidth"
            found.append(Bar(what, f"{bandwidth:.2f}", f">= {LEAST_BANDWIDTH}", bandwidth >= LEAST_BANDWIDTH))
        if record["bytes"] == 64:
            ours, least = (record[name] / record["perftest_us"] for name in ("pipeline_us", "pyverbs_us"))
            what = "READ of 64 B: of ib_read_lat's latency"
            found.append(Bar(what, f"{ours:.2f}", f"<= {MOST_LATENCY}", ours <= MOST_LATENCY))
            found.append(Bar("the same by pyverbs alone", f"{least:.2f}", "for comparison", None))
    return found


def main() -> int:
    """Print the table; 1 if a bar is not met."""
    parser = argparse.ArgumentParser(prog="python -m eval.rdma")
    parser.add_argument("--out", type=Path, help="append the records as JSON lines")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes; 64 and 1048576 have bars")
    args = parser.parse_args()
    if shutil.which("ib_read_bw") is None:
        parser.error("perftest is not installed; Debian, Ubuntu, Fedora: package perftest")
    port = choose_port(host=SELF)
    records = measure(args.sizes)
    print(f"{port}, {HOSTS} host(s), Linux {platform.release()}\n{table(records)}")
    if args.out:
        with args.out.open("a") as out:
            out.writelines(json.dumps({"port": str(port), "hosts": HOSTS, **record}) + "\n" for record in records)
    verdicts = bars(records)
    print("\nbars", *verdicts, sep="\n")
    return 0 if all(bar.met is not False for bar in verdicts) else 1


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    sys.exit(main())
