"""Requests that were changed at random are read as they are, or refused, and nothing else."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from pyslash.errors import InvalidRequestError
from pyslash.protocol.codec import body, checks_of, parse
from pyslash.protocol.messages import (
    Begin,
    Checkpoint,
    Commit,
    Connect,
    Empty,
    EndSnapshots,
    Fold,
    FoldFiles,
    Gather,
    Land,
    MakeRoom,
    Promote,
    Read,
    Release,
    Replicate,
    Request,
    Reserve,
    Restore,
    Resume,
    Snapshot,
    Take,
    Write,
)
from pyslash.units import ArenaOffset
from tests.agent.blocks import PLAN

A = "ab" * 16
FIRST, SECOND = ArenaOffset(64), ArenaOffset(128)
SAMPLES: list[Request] = [
    Commit(3, [FIRST, SECOND], PLAN, 1, [5, 6], [[A, [[64, 5]]]]),
    Checkpoint(3, [FIRST], PLAN, 1, "/checkpoint", "3-1.arrow", True, [5]),
    Restore(PLAN, 1, "/checkpoint", [["3-1.arrow", 100, 5]]),
    Snapshot(PLAN, 1, "/checkpoint", "3-1.arrow", 1 << 20),
    FoldFiles(PLAN, 1, "/checkpoint", [["1-1.arrow", 10, 20]], "3-1.arrow", -5, 1 << 20),
    EndSnapshots(1),
    Fold(3, [FIRST, SECOND], PLAN, 1, [5, 6]),
    Take(3, PLAN, 1, "/backfill", [["0-1.arrow", 100, 5]]),
    Replicate(3, [FIRST], PLAN, 1, "{}", "auto", False, [5]),
    Reserve(3, A, [[64, 100, 5]], PLAN, 1, False),
    Promote(3, A, [[64, 5]], PLAN, 1),
    MakeRoom(3, 1, 100, "/spill", 1000),
    Begin(PLAN, 1),
    Resume(3, PLAN, 1, -5),
    Release(-5, 1),
    Read([[64, [[0, 100]]]], A),
    Gather(1 << 20, 30, "ab12"),
    Land("tcp", [["{}", [[64, 128, [[0, 100]]]]]]),
    Write(64, 100, A),
    Connect(
        qpn=1, psn=2, gid="0000:0000:0000:0000:0000:ffff:0a00:0001", lid=0, mtu=3, initiator_depth=1, responder_depth=1
    ),
    Empty(),
]
STRANGE: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, 1 << 62, 1 << 63, 1 << 64, -(1 << 63), "", "x", "\u00e9", "../../etc", "\0",
    "a" * 5000, [], [[]], [None], [[0, -1]], [[0, 0, 0, 0]], {}, {"a": 1}, A, A.upper(),
]  # fmt: skip


def iterations(short: int) -> int:
    """PYSLASH_FUZZ multiplies them."""
    return short * int(os.environ.get("PYSLASH_FUZZ", "1"))


def changed(value: Any, chance: random.Random) -> Any:
    """The value with one strange thing somewhere in it."""
    if isinstance(value, (list, dict)) and value and chance.random() < 0.8:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        copy = value.copy()
        key = chance.choice(keys)
        match chance.randrange(8):
            case 0:
                del copy[key]
            case 1 if isinstance(copy, dict):
                copy[str(key) + "x"] = copy.pop(key)
            case 2 if isinstance(copy, list):
                copy *= chance.choice([2, 40_000])
            case _:
                copy[key] = changed(copy[key], chance)
        return copy
    return chance.choice(STRANGE)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_changed_request_is_read_or_refused(sample: Request) -> None:
    chance = random.Random(int(os.environ.get("PYSLASH_FUZZ_SEED", "42")))
    kind = type(sample)
    assert parse(kind, body(sample)) == sample
    for _ in range(iterations(300)):
        record = changed(sample.__dict__, chance)
        raw = bytearray(json.dumps(record).encode())
        if chance.random() < 0.3 and raw:
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        try:
            found = parse(kind, bytes(raw))
        except InvalidRequestError:
            continue
        # What passes keeps every bound: it is the same again after another journey.
        assert parse(kind, body(found)) == found
        for name, check in checks_of(kind.__name__).items():
            assert check(getattr(found, name))
