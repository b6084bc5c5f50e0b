"""Which failures of an epoch another run of it may mend."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.conf import Conf
from pyslash.driver.operator_run import OperatorRun
from pyslash.driver.operator_runner import OperatorRunner
from pyslash.driver.phase import Phase
from pyslash.errors import AgentTimeoutError, AgentUnavailableError, InvalidInputError, StateLostError
from pyslash.units import Epoch


class Nobody:
    """Agents none of which is lost, and all on the way to them."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self) -> list[Any]:
        return []


class Lock:
    """Is held, or not."""

    is_held = False

    def __enter__(self) -> None:
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def runner(durability: str) -> OperatorRunner:
    made: Any = object.__new__(OperatorRunner)
    made._conf = Conf.read({"spark.slash.durability": durability}.get)
    made._run = Nobody()
    found: OperatorRunner = made
    return found


TASK = "Job aborted: Lost task 0.3: java.lang.IllegalStateException: io.pyslash.core.SlashException: {}\n\tat ..."


@pytest.mark.parametrize(
    ("error", "begins_again"),
    [
        (caused_by(StateLostError("unreachable"), AgentTimeoutError("no answer")), True),  # of the driver's own call
        (AgentUnavailableError("nobody listens"), True),  # of a job's tasks
        (RuntimeError(TASK.format("AgentTimeoutError: no answer within 5 s")), True),  # of the sink's
        (RuntimeError(TASK.format("CorruptBlockError: fails its CRC")), False),
        (InvalidInputError("a time out of range"), False),
        (RuntimeError("the job's own"), False),
    ],
    ids=str,
)
def test_an_epoch_whose_agents_were_out_of_reach_begins_again(error: Exception, begins_again: bool) -> None:
    """The network may be back by the time that they are looked for."""
    assert runner("checkpoint").can_begin_again(error) is begins_again
    assert not runner("off").can_begin_again(error)


def test_a_query_that_ends_lets_go_of_its_state_while_nobody_sends_replicas_of_it() -> None:
    made: Any = runner("both")
    lock, held = Lock(), list[bool]()
    made._replicas = SimpleNamespace(lock=lock, close=lambda: None)
    made._run = SimpleNamespace(free=lambda _: held.append(lock.is_held), forget=lambda: None, close=lambda: None)
    made._failed = None
    made.end(resumable=True)
    assert held == [True]
    assert made._run is None


def test_a_query_whose_recovery_fails_lets_go_of_what_its_last_run_has_left() -> None:
    made: Any = runner("checkpoint")
    done = list[str]()
    agents = SimpleNamespace(remember=lambda agents: None, known={})
    made.phase, made._failed, made._has_logged = Phase.BEGUN, None, False
    made._replicas = SimpleNamespace(lock=Lock(), close=lambda: None)
    made._recovery = SimpleNamespace(agents=agents)
    group = SimpleNamespace(add_agents=lambda agents: None, close=lambda: None)
    coordinator = SimpleNamespace(agents=[], group=group, drop=lambda: done.append("freed"))
    run: Any = object.__new__(OperatorRun)
    run.state, run._search = SimpleNamespace(coordinator=coordinator, durable=object()), agents
    run.forget, run.close = (lambda: done.append("forgotten")), (lambda: None)
    made._run = run
    made.begin_again()  # and no other run could begin
    made.end(resumable=True)
    assert done == ["freed", "forgotten"]


class Nested:
    """A lock that says when it is free again."""

    def __init__(self, events: list[str]) -> None:
        self._events, self._depth = events, 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._events.append("released")


def test_nobody_sends_replicas_between_the_log_of_an_epoch_and_its_commit() -> None:
    events = list[str]()

    def log(*_: object) -> Any:
        events.append("log")
        return SimpleNamespace(rows=0, late_rows=0)

    def nothing(*_: object) -> None:
        return None

    made: Any = runner("both")
    made.plan, made.phase = SimpleNamespace(identity=None), Phase.BEGUN
    made._replicas = SimpleNamespace(lock=Nested(events), look=nothing, warn_without=nothing)
    made._inputs = SimpleNamespace(take=nothing, figures=nothing)
    made._late = SimpleNamespace(are_kept=False)
    made._run = SimpleNamespace(
        state=SimpleNamespace(manifests=SimpleNamespace(read=nothing)),
        release=lambda _: False,
        inputs=lambda *_: SimpleNamespace(epoch=1),
        update=lambda _: (None, None),
        store=lambda *_: SimpleNamespace(checkpoint_bytes=0, replica_bytes=0, standbys={}),
        log=log,
        tidy=nothing,
        commit=lambda _: events.append("commit"),
        merge=lambda *_: (SimpleNamespace(plan=None, figures=None), None),
        reads=(),
    )
    progress: Any = SimpleNamespace(timed=lambda _: nullcontext(), take=nothing, count_rows=nothing, replica_bytes=0)
    batch: Any = SimpleNamespace()
    made.merged(batch, Epoch(1), progress)
    assert events[events.index("log") :][:2] == ["log", "commit"]
