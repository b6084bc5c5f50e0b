"""What a queue pair is told about its peer: over Ethernet by GID, over InfiniBand by LID."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.errors import TransportUnavailableError
from pyslash.rdma import queue_pair
from pyslash.rdma.endpoint import Endpoint
from pyslash.rdma.library import Library, library
from pyslash.rdma.port import Port
from pyslash.rdma.queue_pair import QueuePair

GID = "fe80:0000:0000:0000:5054:00ff:fe00:0001"
PEER_GID = "fe80:0000:0000:0000:5054:00ff:fe00:0002"
INFINIBAND = Port("mlx5_0", 2, "InfiniBand", 31, 0, GID, "", "", "infiniband fe80:0000:0000:0000")
ROCE = Port("mlx5_1", 1, "Ethernet", 0, 3, GID, "eth0", "10.1.0.1", "roce 10.1.0.0/24")
PEER = Endpoint(qpn=4711, psn=815, gid=PEER_GID, lid=77, mtu=4, initiator_depth=4, responder_depth=2)


class Pair:
    """A queue pair that keeps what it was told."""

    qp_num = 1234

    def __init__(self, domain: object, attributes: object) -> None:
        self.attributes = attributes
        self.told: Any = None

    def to_rts(self, attributes: Any) -> None:
        self.told = attributes


def plain_verbs() -> Any:
    """Names instead of numbers, and attributes that keep whatever they are given."""
    kept = SimpleNamespace
    return kept(
        qp=kept(QPCap=kept, QPInitAttr=kept, QPAttr=kept),
        addr=kept(AHAttr=kept, GlobalRoute=kept, GID=str),
        constant={"IBV_QPT_RC": 2, "IBV_ACCESS_REMOTE_READ": 4}.__getitem__,
    )


@pytest.fixture(params=["plain", "pyverbs"])
def verbs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plain objects, and the installed pyverbs, both without a device."""
    if request.param == "plain":
        made = plain_verbs()
    else:
        try:
            real: Library = library()
        except TransportUnavailableError as error:
            pytest.skip(str(error))
        made = SimpleNamespace(qp=real.qp, addr=real.addr, constant=real.constant)
    members = ("QPCap", "QPAttr")
    made.qp = SimpleNamespace(QP=Pair, QPInitAttr=SimpleNamespace, **{name: getattr(made.qp, name) for name in members})
    monkeypatch.setattr(queue_pair, "explained", lambda _: nullcontext())
    return made


def connected(verbs: Any, port: Port) -> tuple[QueuePair, Any]:
    """A pair, and what it was told about `PEER`."""
    device: Any = SimpleNamespace(
        verbs=verbs, port=port, mtu=5, max_in_flight=8, initiator_depth=16, responder_depth=16
    )
    pair = QueuePair(device, object(), SimpleNamespace(queue=None))
    pair.connect(PEER, "IBV_ACCESS_REMOTE_READ")
    return pair, pair.verbs_qp.told


def test_infiniband_goes_by_lid(verbs: Any) -> None:
    pair, told = connected(verbs, INFINIBAND)
    assert (pair.endpoint.lid, pair.endpoint.gid) == (31, GID)
    route = told.ah_attr
    assert (route.dlid, int(route.is_global), route.port_num) == (77, 0, 2)
    assert told.port_num == 2


def test_roce_goes_by_gid(verbs: Any) -> None:
    pair, told = connected(verbs, ROCE)
    assert pair.endpoint.lid == 0
    route = told.ah_attr
    assert (int(route.is_global), route.port_num) == (1, 1)
    path = getattr(route, "gr", route)  # pyverbs shows the parts of a route on the whole
    assert (str(path.dgid), path.sgid_index, path.hop_limit) == (PEER_GID, 3, 64)


@pytest.mark.parametrize("port", [INFINIBAND, ROCE], ids=lambda port: port.link_layer)
def test_both_ends_agree(verbs: Any, port: Port) -> None:
    pair, told = connected(verbs, port)
    assert told.path_mtu == 4  # the smaller one
    assert (told.dest_qp_num, told.rq_psn, told.sq_psn) == (4711, 815, pair.endpoint.psn)
    assert (told.max_rd_atomic, told.max_dest_rd_atomic) == (2, 4)
    assert int(told.qp_access_flags) == verbs.constant("IBV_ACCESS_REMOTE_READ")
    assert 0 <= pair.endpoint.psn < 1 << 24


def test_only_requests_that_ask_for_a_completion_have_one(verbs: Any) -> None:
    pair, _ = connected(verbs, ROCE)
    assert pair.verbs_qp.attributes.sq_sig_all == 0


def test_packets_are_of_the_class_that_the_host_names(verbs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSLASH_RDMA_TRAFFIC_CLASS", "104")
    _, told = connected(verbs, ROCE)
    assert getattr(told.ah_attr, "gr", told.ah_attr).traffic_class == 104
    for wrong in ("256", "-1", "AF31"):
        monkeypatch.setenv("PYSLASH_RDMA_TRAFFIC_CLASS", wrong)
        with pytest.raises(TransportUnavailableError, match=f"PYSLASH_RDMA_TRAFFIC_CLASS={wrong}"):
            connected(verbs, ROCE)
