"""A READ of a port from itself, which proves that device, driver, pyverbs and rights work together, with figures."""

from __future__ import annotations

import ctypes
import mmap
import os
import statistics
import time
from dataclasses import dataclass

from pyslash.errors import VerbsError
from pyslash.rdma.device import Device
from pyslash.rdma.landing import LandingPool
from pyslash.rdma.port import Port
from pyslash.rdma.queue_pair import QueuePair
from pyslash.rdma.transfer import Mover, Piece

_SMALL = 64
_DEADLINE_SECONDS = 20.0


@dataclass(frozen=True)
class Loopback:
    """Median microseconds of a READ of 64 bytes, and MB/s of one of `bytes`."""

    latency_us: float
    megabytes_per_second: float
    bytes: int


def loopback(port: Port, size: int = 16 << 20, repeats: int = 100) -> Loopback:
    """READs `size` bytes once and 64 bytes `repeats` times, and compares what came.

    Raises:
        TransportUnavailableError: the device or memory for it cannot be had.
        SlashError: a READ failed, or brought other bytes.
    """
    device = Device(port)
    try:
        domain, completions = device.protection_domain(), device.completion_queue()
        source = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        source[:] = os.urandom(min(size, 1 << 20)).ljust(size, b"\x5a")
        address = ctypes.addressof(ctypes.c_char.from_buffer(source))
        region = device.register(domain, address, size, "IBV_ACCESS_REMOTE_READ")
        reader, target = (QueuePair(device, domain, completions) for _ in range(2))
        target.connect(reader.endpoint, "IBV_ACCESS_REMOTE_READ")
        reader.connect(target.endpoint)
        mover = Mover(device, reader, completions)
        pool = LandingPool(device, domain)
        lease = pool.acquire(size)

        def read(length: int) -> float:
            began = time.perf_counter()
            piece = Piece(lease.slab.address, address, length)
            deadline = time.monotonic() + _DEADLINE_SECONDS
            what = f"{port}: loopback READ"
            mover.move("IBV_WR_RDMA_READ", [piece], lease.slab.lkey, int(region.rkey), what, deadline)
            return time.perf_counter() - began

        read(size)  # touches the pages
        seconds = read(size)
        if lease.buffer(0, size).to_pybytes() != source[:]:
            raise VerbsError(f"{port}: a loopback READ brought other bytes than were there")
        latency = statistics.median(read(_SMALL) for _ in range(repeats))
        reader.close()
        target.close()
        lease.release()
        pool.close()
        return Loopback(latency * 1e6, size / seconds / 1e6, size)
    finally:
        device.close()
