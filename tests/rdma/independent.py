"""A second implementation of a reader: pyverbs, docs/security.md and docs/block-format.md, not a line of pyslash.

It shares no code with what it checks. Plain loops, no pipeline: what it reads is small.
"""

from __future__ import annotations

import ctypes
import enum
import hmac
import json
import mmap
import os
import socket
import struct
import time
from types import SimpleNamespace
from typing import Any

HEADER = struct.Struct("<QIIQ16s16sqqQQQQQqIII60s")
ENTRY = struct.Struct("<qIIIIQQQ")
WIDTHS = {"boolean": 1, "int8": 1, "int16": 2, "int32": 4, "float32": 4, "date": 4}
WIDTHS |= {"int64": 8, "float64": 8, "timestamp": 8, "timestamp_ntz": 8}


def crc32c(data: bytes) -> int:
    """Castagnoli's CRC, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def constants() -> Any:
    """Pyverbs's, by name; from version 57 on they are members of enums."""
    try:
        import pyverbs.enums
    except ImportError:
        import pyverbs.libibverbs_enums

        kinds = [kind for kind in vars(pyverbs.libibverbs_enums).values() if isinstance(kind, enum.EnumMeta)]
        return SimpleNamespace(**{name: member for kind in kinds for name, member in kind.__members__.items()})
    return pyverbs.enums


def ask(control: socket.socket, proof: tuple[bytes, bytes], action: str, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to the first request on a connection; `proof` is a query's id and token."""
    query, token = proof

    def derived(purpose: bytes) -> bytes:
        return hmac.digest(token[1:], b"pyslash-wire " + purpose + b"\n" + hello + said, "sha256")

    def mac(purpose: bytes, frame: bytes) -> bytes:
        return hmac.digest(derived(purpose), bytes(8) + frame, "sha256")[:16]

    hello = b"PYSLASH\x02" + token[:1] + bytes(7) + query + os.urandom(32)
    control.sendall(hello)
    said = control.recv(48, socket.MSG_WAITALL)
    assert control.recv(32, socket.MSG_WAITALL) == derived(b"agent proves")
    control.sendall(derived(b"client proves"))
    body = action.encode() + b" \n" + json.dumps(request).encode()
    head = struct.pack("<IB3x", len(body), 1)
    control.sendall(head + mac(b"client sends", head + body) + body)
    head, sealed = control.recv(8, socket.MSG_WAITALL), control.recv(16, socket.MSG_WAITALL)
    size, kind = struct.unpack("<IB3x", head)
    body = control.recv(size, socket.MSG_WAITALL)
    assert (kind, sealed) == (2, mac(b"agent sends", head + body)), body
    answer: dict[str, Any] = json.loads(body)
    return answer


def fetch(descriptor: dict[str, Any], proof: tuple[bytes, bytes], offset: int, length: int, port: Any) -> bytes:
    """`length` bytes at `offset` of the arena, by one RDMA READ over a connection of our own."""
    from pyverbs.addr import GID, AHAttr, GlobalRoute
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
    from pyverbs.wr import SGE, SendWR

    e = constants()
    context = Context(name=port.device)
    domain, completions = PD(context), CQ(context, 4)
    memory = mmap.mmap(-1, length)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    region = MR(domain, length, e.IBV_ACCESS_LOCAL_WRITE, address=address)
    capacity = QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
    pair = QP(domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=completions, rcq=completions, cap=capacity))
    ours = {"qpn": pair.qp_num, "psn": 4711, "gid": port.gid, "lid": 0, "mtu": e.IBV_MTU_1024}
    with socket.create_connection((descriptor["host"], descriptor["port"]), 30) as control:
        theirs = ask(control, proof, "connect", {**ours, "initiator_depth": 1, "responder_depth": 1})
        peer = theirs["endpoint"]
        attributes = QPAttr()
        attributes.port_num, attributes.pkey_index, attributes.qp_access_flags = port.number, 0, 0
        attributes.path_mtu, attributes.dest_qp_num = min(e.IBV_MTU_1024, peer["mtu"]), peer["qpn"]
        attributes.rq_psn, attributes.sq_psn = peer["psn"], ours["psn"]
        attributes.max_rd_atomic, attributes.max_dest_rd_atomic = 1, 1
        attributes.min_rnr_timer, attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 12, 14, 7, 7
        route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=port.gid_index, hop_limit=64)
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=port.number)
        pair.to_rts(attributes)
        request = SendWR(
            opcode=e.IBV_WR_RDMA_READ, num_sge=1, sg=[SGE(address, length, region.lkey)], send_flags=e.IBV_SEND_SIGNALED
        )
        request.set_wr_rdma(theirs["rkey"], theirs["address"] + offset)
        pair.post_send(request)
        deadline = time.monotonic() + 30
        while not (polled := completions.poll(1))[0]:
            assert time.monotonic() < deadline
        assert polled[1][0].status == e.IBV_WC_SUCCESS, polled[1][0]
    with socket.create_connection((descriptor["host"], descriptor["port"]), 30) as control:
        ask(control, proof, "disconnect", {"qpn": peer["qpn"]})
    data = ctypes.string_at(address, length)
    for one in (pair, region, completions, domain, context):
        one.close()
    return data


def aligned(size: int) -> int:
    return -(-size // 64) * 64


def decode(block: bytes) -> tuple[dict[str, Any], dict[tuple[Any, ...], dict[str, Any]]]:
    """The header's fields, and {(pane, key ...): {state: value}} of all groups; sums are whole numbers."""
    names = "magic version head_length fingerprint query incarnation epoch attempt arena_offset length groups rows"
    names += " late_rows max_event_time segment_count plan_length head_crc reserved"
    header = dict(zip(names.split(), HEADER.unpack_from(block), strict=True))
    assert block[:8] == b"PYSLASH\x01"
    assert header["version"] == 1
    assert header["reserved"] == bytes(60)
    head = bytearray(block[: header["head_length"]])
    head[128:132] = bytes(4)
    assert crc32c(bytes(head)) == header["head_crc"]
    entries = [ENTRY.unpack_from(block, 192 + 48 * index) for index in range(header["segment_count"])]
    assert sorted(entries, key=lambda entry: entry[:2]) == entries
    plan_at = 192 + 48 * len(entries)
    keys, states = layout(block[plan_at : plan_at + header["plan_length"]].decode("ascii"))
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for pane, _, _, rows, crc, offset, length, _ in entries:
        segment = block[offset : offset + length]
        assert offset % 64 == 0
        assert crc32c(segment) == crc
        columns = read_segment(segment, keys, states, rows)
        for row in range(rows):
            key = (pane, *(column[row] for column in columns[: len(keys)]))
            assert key not in groups
            groups[key] = {name: column[row] for (name, _), column in zip(states, columns[len(keys) :], strict=True)}
    assert len(groups) == header["groups"]
    return header, groups


def layout(plan: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Types of the keys; names and types of the states."""
    columns: list[tuple[str, bool]] = [("timestamp", True)]
    keys: list[str] = []
    states: list[tuple[str, str]] = [("rows", "int64")]
    first, *lines = plan.removesuffix("\n").split("\n")
    assert first == "pyslash-plan 1"
    for line in lines:
        match line.split(" "):
            case ["column", kind, nullable]:
                columns.append((kind, nullable == "1"))
            case ["key", index]:
                keys.append(columns[int(index)][0])
            case ["aggregate", function, index, _] if index != "-":
                kind, nullable = columns[int(index)]
                wanted = [(f"nulls({index})", "int64")] if nullable else []
                if function != "count":
                    wanted.append((f"{'add' if function in ('sum', 'avg') else function}({index})", kind))
                states += [state for state in wanted if state not in states]
    return keys, states


def read_segment(segment: bytes, keys: list[str], states: list[tuple[str, str]], rows: int) -> list[list[Any]]:
    """A list of values for each key and each state."""
    shapes = [3 if is_variable(kind) else 2 for kind in keys] + [buffers_of(*state) for state in states]
    total = sum(shapes)
    lengths = struct.unpack_from(f"<{total}Q", segment)
    at, buffers = aligned(8 * total), []
    for length in lengths:
        buffers.append(segment[at : at + length])
        at += aligned(length)
    assert at == len(segment)
    columns = []
    for index, shape in enumerate(shapes):
        mine, buffers = buffers[:shape], buffers[shape:]
        if index < len(keys):
            columns.append(read_values(keys[index], mine, rows))
        else:
            columns.append(read_state(*states[index - len(keys)], mine, rows))
    return columns


def is_variable(kind: str) -> bool:
    return kind in ("string", "binary")


def width(kind: str) -> int:
    if kind.startswith("decimal"):
        return 8 if int(kind[8:].split(",")[0]) <= 18 else 16
    return WIDTHS[kind]


def buffers_of(state: str, kind: str) -> int:
    if state.startswith("add"):
        return 1 if kind.startswith("float") else 2
    return 3 if is_variable(kind) and state != "rows" and not state.startswith("nulls") else 1


def number(kind: str, data: bytes) -> Any:
    if kind.startswith("float"):
        return struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
    return int.from_bytes(data, "little", signed=True)


def read_values(kind: str, buffers: list[bytes], rows: int) -> list[Any]:
    """Keys, and extremes of variable width: None where the bit is 0."""
    bits, *rest = buffers
    valid = [not bits or bool(bits[row // 8] >> row % 8 & 1) for row in range(rows)]
    if is_variable(kind):
        ends = struct.unpack(f"<{rows + 1}i", rest[0])
        return [rest[1][ends[row] : ends[row + 1]] if valid[row] else None for row in range(rows)]
    size = width(kind)
    return [number(kind, rest[0][row * size : (row + 1) * size]) if valid[row] else None for row in range(rows)]


def read_state(state: str, kind: str, buffers: list[bytes], rows: int) -> list[Any]:
    if state.startswith("add") and not kind.startswith("float"):
        size = 16 if width(kind) == 16 else 8
        low = [number("", buffers[0][row * size : (row + 1) * size]) for row in range(rows)]
        high = [number("", buffers[1][row * 8 : (row + 1) * 8]) for row in range(rows)]
        return [a + (b << 8 * size) for a, b in zip(low, high, strict=True)]
    if is_variable(kind):
        return read_values(kind, buffers, rows)
    if state.startswith("add"):
        kind = "float64"
    size = width(kind)
    return [number(kind, buffers[0][row * size : (row + 1) * size].ljust(size, b"\0")) for row in range(rows)]
