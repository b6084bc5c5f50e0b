"""How a merge reads partial state from an agent's arena: one interface (`base`), shared memory (`shm`), RDMA (`verbs`),
a stream (`tcp`), and the choice between them for each peer (`choose`).
"""

from pyslash.transport.base import Memory, Placed, Range, Transport, TransportCounters
from pyslash.transport.choose import Choice, Transports, choose_transport, close_transports

__all__ = [
    "Choice",
    "Memory",
    "Placed",
    "Range",
    "Transport",
    "TransportCounters",
    "Transports",
    "choose_transport",
    "close_transports",
]
