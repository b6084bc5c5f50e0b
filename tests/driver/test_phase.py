"""The epoch's state machine: every phase with every event."""

from __future__ import annotations

from itertools import product

import pytest

from pyslash.driver.phase import Event, Phase, advance
from pyslash.errors import InvalidTransitionError

P, E = Phase, Event
ALLOWED = {
    (P.EMITTED, E.BEGAN): P.BEGUN,
    (P.BEGUN, E.BEGAN): P.BEGUN,
    (P.BEGUN, E.UPDATED): P.UPDATED,
    (P.BEGUN, E.REPLAYED): P.LOGGED,
    (P.UPDATED, E.UPDATED): P.UPDATED,
    (P.UPDATED, E.STORED): P.STORED,
    (P.STORED, E.STORED): P.STORED,
    (P.STORED, E.LOGGED): P.LOGGED,
    (P.LOGGED, E.LOGGED): P.LOGGED,
    (P.LOGGED, E.REPLAYED): P.LOGGED,
    (P.LOGGED, E.COMMITTED): P.COMMITTED,
    (P.COMMITTED, E.COMMITTED): P.COMMITTED,
    (P.COMMITTED, E.EMITTED): P.EMITTED,
    (P.EMITTED, E.EMITTED): P.EMITTED,
    **{(phase, E.AGENT_LOST): P.BEGUN for phase in P},
    (P.EMITTED, E.AGENT_LOST): P.EMITTED,
}


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, Event)), ids=lambda one: one.name)
def test_every_phase_with_every_event(phase: Phase, event: Event) -> None:
    if (phase, event) not in ALLOWED:
        with pytest.raises(InvalidTransitionError, match=event.value):
            advance(phase, event)
        return
    reached = advance(phase, event)
    assert reached is ALLOWED[phase, event]
    if event is not Event.AGENT_LOST:
        assert advance(reached, event) is reached  # repeated, it changes nothing
