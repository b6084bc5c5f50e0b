"""How requests travel: JSON of a fixed form, checked field by field before anything is done with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pyslash.agent.request import (
    Checkpoint,
    Commit,
    Conceal,
    Connect,
    Discard,
    Disconnect,
    Empty,
    Expose,
    Logs,
    Promote,
    Read,
    Release,
    Renew,
    Replicate,
    Request,
    Reserve,
    Restore,
    Resume,
    Room,
    Seal,
    Write,
)
from pyslash.agent.wire import MAX_BODY_BYTES
from pyslash.errors import InvalidRequestError

MAX_OFFSETS = 16384  # entries of the arena's table
MAX_RANGES = 65536
MAX_AGENTS = 4096
MAX_PLAN_BYTES = 1 << 20
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

_FORMS: dict[type, dict[str, Check]] = {
    Commit: {
        "epoch": _EPOCH,
        "offsets": _OFFSETS,
        "plan": _PLAN,
        "run": _UNSIGNED,
        "heads": _HEADS,
        "replicas": _list_of(_replica, MAX_AGENTS),
        "keeps_changes": _flag,
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
