"""A reliable connection: a queue pair from INIT over RTR to RTS, and what its two ends exchange for that."""

from __future__ import annotations

import secrets
from typing import Any

from pyslash.rdma.completions import Completions
from pyslash.rdma.device import Device, explained
from pyslash.rdma.endpoint import Endpoint
from pyslash.rdma.port import traffic_class

# The local ACK timeout is 4.096 us * 2^16 = 268 ms; seven retries, 2.1 s, bound how long a dead peer is waited for. One
# that lives answers within that, also where a path of the network has just been replaced, or its host is emulated.
_TIMEOUT = 16
_RETRIES = 7
_RNR_TIMER = 12
_HOPS = 64
_PSN_BITS = 24


class QueuePair:
    """Made, told about its peer by `connect`, used, closed. After an error it is of no use any more."""

    def __init__(self, device: Device, domain: Any, completions: Completions) -> None:
        """Not connected yet. The starting packet number is random: a stranger would have to guess it."""
        self._device = device
        qp = device.verbs.qp
        most = device.max_in_flight
        capacity = qp.QPCap(max_send_wr=most, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
        kind = device.verbs.constant("IBV_QPT_RC")
        queue = completions.queue
        # A request has a completion only if it asks for one.
        attributes = qp.QPInitAttr(qp_type=kind, scq=queue, rcq=queue, cap=capacity, sq_sig_all=0)
        with explained("a queue pair cannot be had"):
            self.verbs_qp: Any = qp.QP(domain, attributes)
        port = device.port
        self.endpoint = Endpoint(
            qpn=int(self.verbs_qp.qp_num),
            psn=secrets.randbits(_PSN_BITS),
            gid=port.gid,
            lid=port.lid,
            mtu=device.mtu,
            initiator_depth=device.initiator_depth,
            responder_depth=device.responder_depth,
        )

    def connect(self, peer: Endpoint, *remote_access: str) -> None:
        """To ready-to-send; the peer may do to this process's memory what `remote_access` and each key allow."""
        device, port = self._device, self._device.port
        attributes = device.verbs.qp.QPAttr()
        attributes.qp_access_flags = sum(device.verbs.constant(name) for name in remote_access)
        attributes.port_num = port.number
        attributes.pkey_index = 0
        attributes.path_mtu = min(device.mtu, peer.mtu)
        attributes.dest_qp_num = peer.qpn
        attributes.rq_psn = peer.psn
        attributes.sq_psn = self.endpoint.psn
        attributes.max_rd_atomic = min(device.initiator_depth, peer.responder_depth)
        attributes.max_dest_rd_atomic = min(device.responder_depth, peer.initiator_depth)
        attributes.min_rnr_timer = _RNR_TIMER
        attributes.timeout = _TIMEOUT
        attributes.retry_cnt = _RETRIES
        attributes.rnr_retry = _RETRIES
        attributes.ah_attr = self._route(peer)
        with explained(f"a connection from {port} to GID {peer.gid} cannot be made"):
            self.verbs_qp.to_rts(attributes)

    def close(self) -> None:
        """Destroys it: from here on the device touches no memory on its behalf."""
        self.verbs_qp.close()

    def _route(self, peer: Endpoint) -> Any:
        addr, port = self._device.verbs.addr, self._device.port
        if port.link_layer == "InfiniBand":
            return addr.AHAttr(dlid=peer.lid, is_global=0, port_num=port.number)
        traffic = traffic_class()
        gid = addr.GID(peer.gid)
        path = addr.GlobalRoute(dgid=gid, sgid_index=port.gid_index, hop_limit=_HOPS, traffic_class=traffic)
        return addr.AHAttr(gr=path, is_global=1, port_num=port.number)
