"""The phases of an epoch, and the one function that moves between them.

    BEGUN --updated--> UPDATED --stored--> STORED --logged--> LOGGED --committed--> COMMITTED --emitted--> EMITTED
      |                                                         ^
      +------------------------- replayed ----------------------+

EMITTED --began--> BEGUN: the next epoch.

Before LOGGED nothing of the epoch counts: after a failure its rows are read again. From LOGGED on its manifest says
what it holds, for good: after a failure the epoch starts over and takes the lower path.
"""

from __future__ import annotations

from enum import Enum

from pyslash.errors import InvalidTransitionError


class Phase(Enum):
    """How far an epoch has come."""

    BEGUN = "begun"
    UPDATED = "updated"  # its blocks are published in the arenas
    STORED = "stored"  # and durable, where the query is
    LOGGED = "logged"  # its manifest exists
    COMMITTED = "committed"  # the agents know it too
    EMITTED = "emitted"  # the sink has its rows


class Event(Enum):
    """What may happen to an epoch."""

    BEGAN = "began"
    UPDATED = "updated"
    STORED = "stored"
    LOGGED = "logged"
    COMMITTED = "committed"
    EMITTED = "emitted"
    REPLAYED = "replayed"  # an earlier attempt's manifest was found
    AGENT_LOST = "agent lost"


_FORWARD = {
    (Phase.EMITTED, Event.BEGAN): Phase.BEGUN,
    (Phase.BEGUN, Event.UPDATED): Phase.UPDATED,
    (Phase.BEGUN, Event.REPLAYED): Phase.LOGGED,
    (Phase.UPDATED, Event.STORED): Phase.STORED,
    (Phase.STORED, Event.LOGGED): Phase.LOGGED,
    (Phase.LOGGED, Event.COMMITTED): Phase.COMMITTED,
    (Phase.COMMITTED, Event.EMITTED): Phase.EMITTED,
}


def advance(phase: Phase, event: Event) -> Phase:
    """The phase after an event; the event that led to a phase may be repeated there.

    Raises:
        InvalidTransitionError: the event cannot happen in this phase.
    """
    if event is Event.AGENT_LOST:
        return phase if phase is Phase.EMITTED else Phase.BEGUN
    following = _FORWARD.get((phase, event))
    if following is not None:
        return following
    if any(reached is phase and cause is event for (_, cause), reached in _FORWARD.items()):
        return phase
    raise InvalidTransitionError(f"{event.value} cannot happen to an epoch that is {phase.value}")
