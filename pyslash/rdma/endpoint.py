"""What one end of a connection has to know about the other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """One end, as the other has to know it.

    `mtu` is the verbs code of the path MTU (1: 256 bytes ... 5: 4096), `initiator_depth` and `responder_depth` are how
    many READs the end may have outstanding, and answers at a time. A GID is 8 groups of hex digits; `lid` 0: Ethernet.
    """

    qpn: int
    psn: int
    gid: str
    lid: int
    mtu: int
    initiator_depth: int
    responder_depth: int
