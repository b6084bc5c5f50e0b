"""The world that a run happens in: its drivers, its points, and what strikes at them.

Drivers are threads, but only the one that holds the baton runs: it is passed on at points, by a seeded choice.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyslash.state.durable import KEPT_SECONDS
from tests.model.schedule import ANYWHERE, DAMAGE, Fault, Kind, Schedule

if TYPE_CHECKING:
    from tests.model.agents import Agent, Cluster

_PASS_ON = 0.15
_BACKGROUND = 0.2


class Violation(BaseException):
    """The protocol broke a promise. No `except Exception` may swallow it."""


class Crash(BaseException):
    """The running driver's process has ended."""


class AgentDied(BaseException):
    """The agent that was answering has ended."""


class Injected(Exception):
    """A failure that is not of pyslash's making: a task's, the sink's."""


@dataclass(eq=False)
class Driver:
    """A driver's process, on its application's executors."""

    number: int
    cluster: Cluster
    alive: bool = True
    ended: bool = False
    run: int = 0
    inside: Agent | None = None  # the agent that is answering a call of this driver
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __str__(self) -> str:
        return f"driver {self.number}"


class World:
    """One run of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.number = schedule.number
        self.chance = random.Random(schedule.number + 1)
        self.trace: list[str] = []
        self.drivers: list[Driver] = []
        self.agents: list[Agent] = []
        self.newest_run = (0, 0)  # (run, number of its driver)
        self.earlier_run = (0, 0)  # what that was before
        self.damaged = False  # something durable was destroyed: the query may end, with a typed error
        self.torn: set[str] = set()  # likewise, until the driver that has made them looks at them, if it lives
        self.struck: list[Kind] = []
        self.violation: Violation | None = None
        self.start_second: Callable[[], Driver] | None = None
        self._pending: list[tuple[Fault, list[int]]] = [(fault, [fault.after]) for fault in schedule.faults]
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._points = self._clock = 0
        self._quiet = False
        self._main = threading.Semaphore(0)
        self._running: Driver | None = None

    @property
    def running(self) -> Driver:
        """The driver that holds the baton."""
        assert self._running is not None
        return self._running

    def say(self, text: str) -> None:
        """One line of the trace."""
        self.trace.append(f"{self._points:4} {self._running or 'outside'}: {text}")

    def point(self, name: str, kinds: frozenset[Kind] = frozenset()) -> Kind | None:
        """A step at which something may happen; a fault of `kinds` that strikes is for the caller to carry out."""
        if self._quiet or self._running is None:
            return None
        self._check()
        self._points += 1
        self.say(name)
        self._background()
        struck = self._strike(kinds)
        if struck in ANYWHERE:
            self._anywhere(struck)
            struck = None
        self._pass_on()
        self._check()
        return struck

    def next_run(self, above: int) -> int:
        """`next_run`, by a clock of the world's own."""
        self._clock = max(self._clock, above >> 8) + 1
        return self._clock << 8 | self.chance.getrandbits(8)

    def seconds(self) -> float:
        """`time.monotonic`: long enough between some points for what is kept a while, and not between others."""
        return KEPT_SECONDS / 4 * self._points

    def later(self, what: str, action: Callable[[], None]) -> None:
        """Do it at some later point."""
        self._later.append((self._points + self.chance.randint(1, 40), lambda: (self.say(what), action())[1]))

    def awaits(self, kind: Kind) -> bool:
        """Whether a fault of this kind has yet to strike."""
        return any(fault.kind is kind for fault, _ in self._pending)

    def _strike(self, kinds: frozenset[Kind]) -> Kind | None:
        kinds |= ANYWHERE if self.running.inside is None else {Kind.AGENT_DIES, Kind.SECOND_DRIVER}
        for index, (fault, left) in enumerate(self._pending):
            if fault.kind not in kinds:
                continue
            if left[0] == 0:
                del self._pending[index]
                self.struck.append(fault.kind)
                self.damaged |= fault.kind in DAMAGE
                self.say(f"!! {fault.kind.value[0]}")
                return fault.kind
            left[0] -= 1
        return None

    def _anywhere(self, kind: Kind) -> None:
        driver = self.running
        if kind is Kind.DRIVER_DIES:
            driver.alive = False
        elif kind is Kind.SECOND_DRIVER:
            assert self.start_second is not None
            self._hand(driver, self.start_second())
        elif kind is Kind.AGENTS_DIE:
            for agent in driver.cluster.agents():
                agent.die()
        elif driver.inside is not None:
            driver.inside.die()
            raise AgentDied
        elif agents := driver.cluster.agents():
            self.chance.choice(agents).die()

    def _background(self) -> None:
        due = [action for at, action in self._later if at <= self._points]
        self._later = [(at, action) for at, action in self._later if at > self._points]
        for action in due:
            self.muted(action)
        if self.agents and self.chance.random() < _BACKGROUND:
            self.muted(lambda: self.chance.choice(self.agents).work(self))

    def muted(self, action: Callable[[], None]) -> None:
        """Do it in one step: nothing strikes within."""
        before, self._quiet = self._quiet, True
        try:
            action()
        finally:
            self._quiet = before

    @contextmanager
    def inside(self, agent: Agent) -> Iterator[None]:
        """The running driver waits for this agent's answer, or for an agent that waits for it."""
        driver = self._running
        if driver is None:
            yield
            return
        before, driver.inside = driver.inside, agent
        try:
            yield
        finally:
            driver.inside = before

    def settle(self) -> None:
        """Whatever was to come later, comes now."""
        while self._later:
            self._points = max(at for at, _ in self._later)
            self._background()

    def _check(self) -> None:
        if not self.running.alive or self.violation is not None:
            raise Crash

    def run(self, driver: Driver, body: Callable[[], None]) -> None:
        """Start a driver's thread; it waits for the baton."""

        def thread() -> None:
            driver.baton.acquire()
            try:
                body()
            except Crash:
                self.say("is dead")
            except Violation as violation:
                self.violation = self.violation or violation
            except BaseException as error:
                self.violation = self.violation or Violation(f"{type(error).__name__} in the model: {error}")
                self.violation.__cause__ = error
            driver.ended = True
            self._to(self._next(driver))

        self.drivers.append(driver)
        threading.Thread(target=thread, daemon=True).start()

    def drive(self, driver: Driver) -> None:
        """Give it the baton until no driver runs any more.

        Raises:
            Violation: a promise was broken.
        """
        self._to(driver)
        self._main.acquire()
        self._running = None
        if self.violation is not None:
            raise self.violation

    def _next(self, ending: Driver) -> Driver | None:
        others = [driver for driver in self.drivers if not driver.ended and driver is not ending]
        return self.chance.choice(others) if others else None

    def _pass_on(self) -> None:
        if len(self.drivers) > 1 and self.chance.random() < _PASS_ON:
            driver = self.running
            if (other := self._next(driver)) is not None:
                self._hand(driver, other)

    def _hand(self, driver: Driver, other: Driver) -> None:
        self._to(other)
        driver.baton.acquire()

    def _to(self, driver: Driver | None) -> None:
        self._running = driver
        (self._main if driver is None else driver.baton).release()


def flipped(data: Any, chance: random.Random) -> bytes:
    """The bytes with one bit changed."""
    changed = bytearray(memoryview(data).cast("B"))
    bit = chance.randrange(8 * len(changed))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
