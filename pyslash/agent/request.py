"""The control plane's messages: JSON of a fixed form, checked field by field before anything is done with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import Any, TypeVar

from pyslash.errors import InvalidRequestError
from pyslash.rdma.endpoint import Endpoint

MAX_OFFSETS = 16384  # entries of the arena's table
MAX_RANGES = 65536
MAX_AGENTS = 4096
MAX_PLAN_BYTES = 1 << 20
MAX_BODY_BYTES = 4 << 20
_INT64 = 1 << 63
_GID = re.compile(r"^[0-9a-f]{4}(:[0-9a-f]{4}){7}$")
_INCARNATION = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[0-9a-z-]{1,100}\.arrow")

Check = Callable[[Any], bool]


def _integer(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value < high


def _list_of(item: Check, most: int) -> Check:
    return lambda value: type(value) is list and len(value) <= most and all(item(one) for one in value)


def _text(most: int) -> Check:
    return lambda value: type(value) is str and value.isascii() and len(value) <= most


def _range(value: Any) -> bool:
    return type(value) is list and len(value) == 2 and _UNSIGNED(value[0]) and type(value[1]) is int and value[1] > 0


def _replica(value: Any) -> bool:
    return type(value) is list and len(value) == 2 and _incarnation(value[0]) and _BLOCKS(value[1])


def _block(value: Any) -> bool:
    return type(value) is list and len(value) == 2 and _UNSIGNED(value[0]) and _CRC(value[1])


def _room(value: Any) -> bool:
    return type(value) is list and len(value) == 3 and _range(value[:2]) and _CRC(value[2])


def _incarnation(value: Any) -> bool:
    return type(value) is str and _INCARNATION.fullmatch(value) is not None


def _flag(value: Any) -> bool:
    return type(value) is bool


def _path(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= 4096


def _file_name(value: Any) -> bool:
    return type(value) is str and _NAME.fullmatch(value) is not None


def _file(value: Any) -> bool:
    return type(value) is list and len(value) == 3 and _file_name(value[0]) and all(map(_UNSIGNED, value[1:]))


_UNSIGNED = _integer(0, _INT64)
_SIGNED = _integer(-_INT64, _INT64)
_CRC = _integer(0, 1 << 32)
_EPOCH = _integer(0, _INT64 - 1)
_OFFSETS = _list_of(_UNSIGNED, MAX_OFFSETS)
_HEADS = _list_of(_CRC, MAX_OFFSETS)
_BLOCKS = _list_of(_block, MAX_OFFSETS)
_PLAN = _text(MAX_PLAN_BYTES)


@dataclass(frozen=True)
class Commit:
    """These blocks, and no other uncommitted ones up to this epoch, are the query's.

    `run` numbers the query's recoveries: what an agent holds of an earlier run is void, and an earlier run is refused.
    `heads` are the CRCs of the blocks' heads, in the order of `offsets`, as their tasks have reported them: a place may
    have been freed and taken by another block since. Without them nothing is compared.
    `replicas`, [agent, its blocks of the epoch] each, are the ones that this agent keeps. A block is [offset in its own
    arena, CRC of its head there].
    """

    epoch: int
    offsets: list[int]
    plan: str
    run: int = 0
    heads: list[int] = field_of(default_factory=list)
    replicas: list[list[Any]] = field_of(default_factory=list)


@dataclass(frozen=True)
class Checkpoint:
    """Write these published blocks of the epoch to `directory`/`name`; a snapshot also holds all committed ones.

    `heads` as of a `Commit`.
    """

    epoch: int
    offsets: list[int]
    plan: str
    run: int
    directory: str
    name: str
    snapshot: bool
    heads: list[int] = field_of(default_factory=list)


@dataclass(frozen=True)
class Restore:
    """Take over the blocks of these files: [name, bytes, CRC32C] each."""

    plan: str
    run: int
    directory: str
    files: list[list[Any]]


@dataclass(frozen=True)
class Replicate:
    """Write these published blocks of the epoch to a standby, an agent's descriptor (JSON), by this transport.

    `whole`: and all committed ones, for a standby that has none of them. `heads`: as in a commit.
    """

    epoch: int
    offsets: list[int]
    plan: str
    run: int
    standby: str
    transport: str
    whole: bool
    heads: list[int] = field_of(default_factory=list)


@dataclass(frozen=True)
class Reserve:
    """Make room for blocks, [offset in its own arena, bytes, CRC of its head there] each, of the agent `source`."""

    epoch: int
    source: str
    blocks: list[list[int]]
    plan: str
    run: int
    whole: bool


@dataclass(frozen=True)
class Seal:
    """The blocks of this agent that room was reserved for have been written."""

    epoch: int
    source: str
    plan: str
    run: int


@dataclass(frozen=True)
class Promote:
    """The agent `source` is lost: its replica as of this epoch, in which it wrote these blocks, is yours now."""

    epoch: int
    source: str
    blocks: list[list[int]]
    plan: str
    run: int


@dataclass(frozen=True)
class Room:
    """Have `bytes` in one piece free for this epoch, which is not committed yet; spill to `directory` (empty: default).

    At most `max_bytes` of all queries may then be on disk.
    """

    epoch: int
    run: int
    bytes: int
    directory: str
    max_bytes: int


@dataclass(frozen=True)
class Resume:
    """What you hold as of this epoch goes on as a part of this run, which needs the panes from `first_pane` on."""

    epoch: int
    plan: str
    run: int
    first_pane: int


@dataclass(frozen=True)
class Discard:
    """What tasks of a failed update of this epoch, not committed yet, have written is not wanted."""

    epoch: int
    run: int = 0


@dataclass(frozen=True)
class Release:
    """Panes that start before `before_pane` (microseconds) are needed no more, by this run or an earlier one."""

    before_pane: int
    run: int = 0


@dataclass(frozen=True)
class Logs:
    """The end of the agent's log."""

    last_bytes: int


@dataclass(frozen=True)
class Empty:
    """A request without fields: drop, describe, stats."""


@dataclass(frozen=True)
class Read:
    """The ticket of a DoGet: ranges [offset in the block, length] of the block at `offset` in the arena."""

    offset: int
    ranges: list[list[int]]
    incarnation: str


@dataclass(frozen=True)
class Write:
    """The descriptor of a DoPut: `length` bytes follow, for [offset, offset + length) of the arena."""

    offset: int
    length: int
    incarnation: str


@dataclass(frozen=True)
class Connect(Endpoint):
    """A queue pair of a peer, for one of the agent's."""


@dataclass(frozen=True)
class Renew:
    """The peer of the agent's queue pair `qpn` still lives."""

    qpn: int


@dataclass(frozen=True)
class Disconnect:
    """The agent's queue pair `qpn` is needed no more."""

    qpn: int


@dataclass(frozen=True)
class Expose:
    """A reserved range of the arena that is to be written by RDMA."""

    offset: int
    length: int


@dataclass(frozen=True)
class Conceal:
    """What was exposed at `offset` has been written."""

    offset: int


_FORMS: dict[type, dict[str, Check]] = {
    Commit: {
        "epoch": _EPOCH,
        "offsets": _OFFSETS,
        "plan": _PLAN,
        "run": _UNSIGNED,
        "heads": _HEADS,
        "replicas": _list_of(_replica, MAX_AGENTS),
    },
    Checkpoint: {
        "epoch": _EPOCH,
        "offsets": _OFFSETS,
        "plan": _PLAN,
        "run": _UNSIGNED,
        "directory": _path,
        "name": _file_name,
        "snapshot": _flag,
        "heads": _HEADS,
    },
    Restore: {
        "plan": _PLAN,
        "run": _UNSIGNED,
        "directory": _path,
        "files": _list_of(_file, MAX_OFFSETS),
    },
    Replicate: {
        "epoch": _EPOCH,
        "offsets": _OFFSETS,
        "heads": _HEADS,
        "plan": _PLAN,
        "run": _UNSIGNED,
        "standby": _path,
        "transport": _text(16),
        "whole": _flag,
    },
    Reserve: {
        "epoch": _EPOCH,
        "source": _incarnation,
        "blocks": _list_of(_room, MAX_OFFSETS),
        "plan": _PLAN,
        "run": _UNSIGNED,
        "whole": _flag,
    },
    Seal: {"epoch": _EPOCH, "source": _incarnation, "plan": _PLAN, "run": _UNSIGNED},
    Promote: {"epoch": _EPOCH, "source": _incarnation, "blocks": _BLOCKS, "plan": _PLAN, "run": _UNSIGNED},
    Room: {
        "epoch": _EPOCH,
        "run": _UNSIGNED,
        "bytes": _UNSIGNED,
        "directory": lambda value: value == "" or _path(value),
        "max_bytes": _UNSIGNED,
    },
    Resume: {"epoch": _EPOCH, "plan": _PLAN, "run": _UNSIGNED, "first_pane": _SIGNED},
    Discard: {"epoch": _EPOCH, "run": _UNSIGNED},
    Release: {"before_pane": _SIGNED, "run": _UNSIGNED},
    Logs: {"last_bytes": _integer(1, 1 << 20)},
    Empty: {},
    Read: {"offset": _UNSIGNED, "ranges": _list_of(_range, MAX_RANGES), "incarnation": _text(32)},
    Connect: {
        "qpn": _integer(0, 1 << 24),
        "psn": _integer(0, 1 << 24),
        "gid": lambda value: type(value) is str and _GID.match(value) is not None,
        "lid": _integer(0, 1 << 16),
        "mtu": _integer(1, 6),
        "initiator_depth": _integer(1, 1 << 16),
        "responder_depth": _integer(1, 1 << 16),
    },
    Renew: {"qpn": _integer(0, 1 << 24)},
    Disconnect: {"qpn": _integer(0, 1 << 24)},
    Expose: {"offset": _UNSIGNED, "length": _integer(1, _INT64)},
    Conceal: {"offset": _UNSIGNED},
    Write: {"offset": _UNSIGNED, "length": _integer(1, _INT64), "incarnation": _text(32)},
}

Request = (
    Commit
    | Checkpoint
    | Restore
    | Replicate
    | Reserve
    | Seal
    | Promote
    | Resume
    | Room
    | Discard
    | Release
    | Logs
    | Empty
    | Read
    | Write
    | Connect
    | Renew
    | Disconnect
    | Expose
    | Conceal
)
Form = TypeVar("Form", bound=Request)


def parse(form: type[Form], body: bytes) -> Form:
    """`body` as a request of this form.

    Raises:
        InvalidRequestError: too long, no JSON object, a field missing, unknown, of the wrong type or out of range.
    """
    name = form.__name__.lower()
    if len(body) > MAX_BODY_BYTES:
        raise InvalidRequestError(f"a {name} request has at most {MAX_BODY_BYTES} bytes, not {len(body)}")
    try:
        record = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise InvalidRequestError(f"the body of a {name} request is not JSON") from None
    checks = _FORMS[form]
    if type(record) is not dict or set(record) != set(checks):
        found = sorted(record) if type(record) is dict else type(record).__name__
        raise InvalidRequestError(f"a {name} request has the fields {sorted(checks)}, not {found}")
    for named, check in checks.items():
        if not check(record[named]):
            raise InvalidRequestError(f"field {named} of a {name} request has the wrong type or is out of range")
    return form(**record)


def body(form: Request) -> bytes:
    """The bytes that `parse` reads."""
    return json.dumps(form.__dict__, separators=(",", ":")).encode()
