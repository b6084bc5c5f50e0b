"""Which failures of an epoch another run of it may mend."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.conf import Conf
from pyslash.driver.operator_runner import OperatorRunner
from pyslash.errors import AgentTimeoutError, AgentUnavailableError, InvalidInputError, StateLostError


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
    made.end(resumable=True)
    assert held == [True]
    assert made._run is None
