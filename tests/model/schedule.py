"""Schedules: which faults strike in a run, as data."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum


class Kind(Enum):
    """A fault, and after how many points at which it may strike it does so at most."""

    DRIVER_DIES = ("the driver's process ends", 160)
    SECOND_DRIVER = ("another driver starts on the same checkpoint; both go on", 160)
    AGENT_DIES = ("an agent's process ends", 160)
    AGENTS_DIE = ("all agents of an application end", 160)
    REQUEST_LOST = ("a call to an agent is not delivered", 50)
    REPLY_LOST = ("a call takes effect, but its answer is lost", 50)
    DUPLICATED = ("a call is delivered twice", 50)
    DELAYED = ("a call times out, and is delivered later", 50)
    TASK_RETRIED = ("a task publishes its block, then fails; another attempt succeeds", 16)
    SPECULATED = ("two attempts of a task publish a block each", 16)
    ZOMBIE = ("a second attempt of a task publishes its block much later", 16)
    JOB_FAILS = ("a task fails for good, after others have published", 16)
    ARENA_FULL = ("a task finds no room in its arena, and none again when half of each arena is free", 16)
    WRITE_FAILS = ("the disk is full in the middle of a block file", 12)
    WRITE_UNACKED = ("a block file is written, but the write reports an error", 12)
    READ_FAILS = ("a block file cannot be read, this time", 6)
    READ_FLIPPED = ("a bit is flipped while a block file is read", 6)
    FILE_LOST = ("a block file is written and then gone", 12)
    FILE_TORN = ("a block file is written and then shorter", 12)
    FILE_FLIPPED = ("a block file is written and then a bit of it flips", 12)
    CREATE_FAILS = ("a manifest or run number cannot be created", 8)
    CREATE_UNACKED = ("it is created, but the call reports an error", 8)
    CREATE_LIES = ("it is not created, but the call reports success", 8)
    CREATE_TORN = ("half of it is created, and the call reports success", 8)
    LINK_FLIPPED = ("a bit is flipped while a merge reads an agent's memory", 8)
    SINK_FAILS = ("the sink has written the rows, then fails", 5)
    REPAIRED = ("the query is started again with another filter below its aggregation", 2)
    OFFSETS_LOST = ("a batch that was not finished is gone from Spark's offset log when it starts again", 2)
    REWOUND = (
        "the last batch that was finished is gone from Spark's logs when it starts again, though it was finished",
        2,
    )
    PUT_BACK = ("the checkpoint is an earlier copy of itself when the query starts again; its agents may live on", 2)
    RECOVERED_DIES = ("an agent's process ends as soon as a run has begun from the memory of standbys", 1)

    @property
    def latest(self) -> int:
        """The bound of `Fault.after` in numbered schedules."""
        return int(self.value[1])


ANYWHERE = frozenset({Kind.DRIVER_DIES, Kind.SECOND_DRIVER, Kind.AGENT_DIES, Kind.AGENTS_DIE})
CALL = frozenset({Kind.REQUEST_LOST, Kind.REPLY_LOST, Kind.DUPLICATED, Kind.DELAYED})
TASK = frozenset({Kind.TASK_RETRIED, Kind.SPECULATED, Kind.ZOMBIE, Kind.JOB_FAILS, Kind.ARENA_FULL})
DAMAGE = frozenset({Kind.FILE_LOST, Kind.FILE_TORN, Kind.FILE_FLIPPED})
WRITE = frozenset({Kind.WRITE_FAILS, Kind.WRITE_UNACKED}) | DAMAGE
READ = frozenset({Kind.READ_FAILS, Kind.READ_FLIPPED})
CREATE = frozenset({Kind.CREATE_FAILS, Kind.CREATE_UNACKED, Kind.CREATE_LIES, Kind.CREATE_TORN})
OF_LOGS = frozenset({Kind.OFFSETS_LOST, Kind.REWOUND})
# By `spark.slash.mode`: with `auto` Spark may go on by itself, and it has no word for a second driver.
_ANY = tuple(kind for kind in Kind if kind is not Kind.RECOVERED_DIES)
KINDS = {"require": _ANY, "auto": tuple(kind for kind in _ANY if kind is not Kind.SECOND_DRIVER)}
_MOST_FAULTS = 7


@dataclass(frozen=True)
class Fault:
    """Strikes at the point after `after` others at which its kind might have."""

    kind: Kind
    after: int


@dataclass(frozen=True)
class Schedule:
    """A run: `number` seeds the rows and every free choice, `faults` strike in it."""

    number: int
    faults: tuple[Fault, ...]

    @classmethod
    def numbered(cls, number: int, kinds: Sequence[Kind] = _ANY) -> Schedule:
        """The schedule of a number, with faults of these kinds."""
        chance = random.Random(number)
        chosen = chance.choices(kinds, k=chance.randint(0, _MOST_FAULTS))
        return cls(number, tuple(Fault(kind, chance.randrange(kind.latest)) for kind in chosen))

    def shrunk(self, fails: Callable[[Schedule], bool]) -> Schedule:
        """The same with no fault that it also fails without."""
        for fault in self.faults:
            fewer = replace(self, faults=tuple(other for other in self.faults if other is not fault))
            if fails(fewer):
                return fewer.shrunk(fails)
        return self
