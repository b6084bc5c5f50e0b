"""An opened port, and what both ends of a connection must agree about it."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyslash.errors import TransportUnavailableError
from pyslash.rdma.completions import Completions, completion_queue
from pyslash.rdma.library import Library, library
from pyslash.rdma.port import Port

MOST_IN_FLIGHT = 128
"""Work requests that a queue pair holds; how many of them the device works on at a time is up to its limits."""


class Device:
    """A context of its own on `port`; a process opens it after its fork, never before."""

    def __init__(self, port: Port) -> None:
        """Opens.

        Raises:
            TransportUnavailableError: no pyverbs, or no permission; the message says what to do.
        """
        self.port = port
        self.verbs: Library = library()
        with explained(f"{port.device} cannot be opened"):
            self.context: Any = self.verbs.device.Context(name=port.device)
            device, of_port = self.context.query_device(), self.context.query_port(port.number)
        self.mtu = int(of_port.active_mtu)
        self.max_message = int(of_port.max_msg_sz)
        self.initiator_depth = max(1, int(device.max_qp_init_rd_atom))
        self.responder_depth = max(1, int(device.max_qp_rd_atom))
        self.max_in_flight = min(MOST_IN_FLIGHT, int(device.max_qp_wr))

    def protection_domain(self) -> Any:
        """A new one: keys of one do not work for queue pairs of another."""
        with explained("a protection domain cannot be had"):
            return self.verbs.pd.PD(self.context)

    def completion_queue(self, entries: int = MOST_IN_FLIGHT) -> Completions:
        """A new one, for that many completions."""
        with explained("a completion queue cannot be had"):
            return completion_queue(self.verbs, self.context, entries)

    def register(self, domain: Any, address: int, length: int, *access: str) -> Any:
        """Memory for the device: `access` are names such as IBV_ACCESS_REMOTE_READ.

        Raises:
            TransportUnavailableError: most often the limit of locked memory; the message has its value.
        """
        flags = sum(self.verbs.constant(name) for name in access)
        with explained(f"{length} bytes of memory cannot be registered with {self.port.device}"):
            return self.verbs.mr.MR(domain, length, flags, address=address)

    def close(self) -> None:
        """Closes the context and everything that was made with it."""
        self.context.close()


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raises what pyverbs reports in setting up as TransportUnavailableError, with the likely mend."""
    error_class = library().pyverbs_error.PyverbsError
    try:
        yield
    except error_class as error:
        raise TransportUnavailableError(f"{what}: {error}{_advice(error)}") from None


def _advice(error: Exception) -> str:
    code = getattr(error, "error_code", None)
    if code in (errno.EPERM, errno.EACCES) or "Permission denied" in str(error):
        return ". Does /dev/infiniband belong to this user or group, and is it visible in this container?"
    if code == errno.ENOMEM or "Cannot allocate memory" in str(error) or "Failed to register" in str(error):
        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        limit = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} bytes"
        return f". The limit of locked memory (ulimit -l) is {limit}; registered memory counts against it"
    return ""
