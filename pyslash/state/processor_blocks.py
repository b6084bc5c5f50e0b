"""The blocks of a processor in Python: where they have what, and the bytes of keys. Panes are its own, as its state is
of no event time.

    generation << 40 | epoch of the generation              rows that the epoch gives; dead once it has been emitted
    generation << 40 | 1 << 39 | home                       state of the home's keys

A manifest's pane is that of its rows, and all before it are dead. A generation ends when most of what its blocks hold
has been replaced: each home then writes its whole state into the next one.
"""

from __future__ import annotations

import marshal
from typing import Any

_GENERATION = 1 << 40
_HOMES = 1 << 39
_KEY_MARSHAL = 0  # without references between equal objects: equal keys have equal bytes


def next_pane(last: int) -> int:
    """Of the epoch's rows."""
    return last + 1


def next_generation(last: int) -> int:
    """Of the epoch's rows, if state moves in it."""
    return (last // _GENERATION + 1) * _GENERATION


def first_home(pane: int) -> int:
    """The pane of home 0 in the generation of an epoch."""
    return pane // _GENERATION * _GENERATION + _HOMES


def panes_of_homes(pane: int) -> tuple[int, int]:
    """The panes (first, end) of all homes in the generation of an epoch."""
    return first_home(pane), next_generation(pane)


def key_bytes(key: tuple[Any, ...]) -> bytes:
    """Equal keys have equal bytes."""
    return marshal.dumps(key, _KEY_MARSHAL)


def key_of(data: bytes) -> tuple[Any, ...]:
    """Inverse of `key_bytes`."""
    key: tuple[Any, ...] = marshal.loads(data)
    return key
