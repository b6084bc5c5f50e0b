"""Registered memory that READs land in and WRITEs leave from: slabs that are reused when their bytes are dropped."""

from __future__ import annotations

import ctypes
import mmap
import threading
from typing import Any

import pyarrow as pa

from pyslash.errors import TransportUnavailableError
from pyslash.rdma.device import Device

_SMALLEST_SLAB = 1 << 20
_MOST_IDLE_BYTES = 64 << 20


class Slab:
    """A registered piece of memory, `size` bytes from `address` on."""

    def __init__(self, device: Device, domain: Any, size: int) -> None:
        """Local writing alone is allowed: no peer has any right here."""
        self.size = size
        self._memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._registration = device.register(domain, self.address, size, "IBV_ACCESS_LOCAL_WRITE")
        self.lkey = int(self._registration.lkey)

    def close(self) -> None:
        """Ends the registration; the memory goes with the last object that refers to it."""
        self._registration.close()


class Lease:
    """The use of a slab. It ends with `release`, or with the last buffer that was cut out of it."""

    __slots__ = ("_held", "_pool", "slab")

    def __init__(self, slab: Slab, pool: LandingPool) -> None:
        """The whole slab."""
        self.slab, self._pool, self._held = slab, pool, True

    def release(self) -> None:
        """Gives the slab back, once."""
        if self._held:
            self._held = False
            self._pool._take_back(self.slab)

    __del__ = release

    def buffer(self, offset: int, length: int) -> pa.Buffer:
        """Bytes of the slab; they stay valid for as long as the buffer, a slice or a view of it lives."""
        return pa.foreign_buffer(self.slab.address + offset, length, base=self)


class LandingPool:
    """Slabs of one protection domain, in sizes of powers of two, kept for the next READ up to a limit. Thread-safe."""

    def __init__(self, device: Device, domain: Any) -> None:
        """Nothing is registered yet."""
        self._device, self._domain = device, domain
        # Re-entrant: a garbage collection inside the critical section may end a lease.
        self._lock = threading.RLock()
        self._idle: list[Slab] = []
        self._closed = False

    def acquire(self, size: int) -> Lease:
        """A slab of at least `size` bytes.

        Raises:
            TransportUnavailableError: the memory cannot be registered, or the pool is closed.
        """
        with self._lock:
            fitting = [slab for slab in self._idle if slab.size >= size]
            if fitting:
                slab = min(fitting, key=lambda one: one.size)
                self._idle.remove(slab)
                return Lease(slab, self)
            if self._closed:
                raise TransportUnavailableError("the query has ended here, and its device is closed")
            return Lease(Slab(self._device, self._domain, _slab_size(size)), self)

    def close(self) -> None:
        """Ends all registrations; of leased slabs when they come back. Their bytes stay valid."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for slab in idle:
            slab.close()

    def _take_back(self, slab: Slab) -> None:
        with self._lock:
            keep = not self._closed and sum(one.size for one in self._idle) + slab.size <= _MOST_IDLE_BYTES
            if keep:
                self._idle.append(slab)
        if not keep:
            slab.close()


def _slab_size(size: int) -> int:
    """The power of two from `size` on.

    >>> _slab_size(1), _slab_size((1 << 20) + 1)
    (1048576, 2097152)
    """
    return max(_SMALLEST_SLAB, 1 << (size - 1).bit_length())
