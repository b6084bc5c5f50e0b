"""How an agent is known to others: a small record, written as one line of JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import Any

_ENDS = {"pid": 1 << 31, "fd": 1 << 31, "port": 1 << 16}
_INCARNATION = re.compile(r"[0-9a-f]{32}")
# Of one line, and such as can be a path: neither the end of a C string nor half of a pair of UTF-16.
_TEXT = re.compile("[^\x00-\x1f\x7f\ud800-\udfff]{0,4096}")


@dataclass(frozen=True)
class AgentDescriptor:
    """Everything that a peer needs to find an agent and to tell it from an earlier one.

    `pid` and `start_time` (clock ticks since boot) name the process, `fd` is the arena's descriptor in it,
    `incarnation` (32 hex digits) is random for each start, `boot_id` tells hosts apart, `fabric` (see `rdma.port`) says
    what the agent's RDMA port is attached to: empty if it has none. `port` is 0 where only this host is to reach it.
    """

    pid: int
    start_time: int
    fd: int
    arena_bytes: int
    incarnation: str
    socket: str
    host: str
    port: int
    boot_id: str
    log: str
    fabric: str

    def to_json(self) -> str:
        """One line of JSON, fields in order."""
        return json.dumps(self.to_record(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> AgentDescriptor:
        """The descriptor in `text`.

        Raises:
            ValueError: not JSON, or a field is missing, unknown or of another type.
        """
        return cls.from_record(json.loads(text))

    @classmethod
    def from_record(cls, record: Any) -> AgentDescriptor:
        """The descriptor of these fields, whoever has written them.

        Raises:
            ValueError: a field is missing, unknown, of another type or out of range.
        """
        if not isinstance(record, dict):
            raise ValueError("an agent's descriptor is a JSON object")
        wanted = {field.name: int if field.type == "int" else str for field in fields(cls)}
        if set(record) != set(wanted):
            raise ValueError(f"an agent's descriptor has the fields {sorted(wanted)}, not {sorted(record)}")
        for name, kind in wanted.items():
            if type(record[name]) is not kind:
                raise ValueError(f"field {name} of an agent's descriptor is {record[name]!r}, not {kind.__name__}")
            if kind is int and not 0 <= record[name] < _ENDS.get(name, 1 << 63):
                raise ValueError(f"field {name} of an agent's descriptor is out of range")
            if kind is str and not _TEXT.fullmatch(record[name]):
                raise ValueError(f"field {name} of an agent's descriptor is no text of a line")
        if not _INCARNATION.fullmatch(record["incarnation"]):
            raise ValueError(f"incarnation {record['incarnation']!r} is not 32 hex digits")
        return cls(**record)

    @property
    def incarnation_bytes(self) -> bytes:
        """The 16 bytes that stand in the arena's header and in every block's head."""
        return bytes.fromhex(self.incarnation)

    @property
    def arena_path(self) -> str:
        """Where another process of this host and user opens the arena."""
        return f"/proc/{self.pid}/fd/{self.fd}"

    def __str__(self) -> str:
        """Short form for messages: who and where."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"agent {self.incarnation[:8]} (pid {self.pid}, {host}:{self.port})"

    def to_record(self) -> dict[str, Any]:
        """The fields as a plain dictionary."""
        return dict(vars(self))
