"""In which order peers are read, what goes into one read, what a failure leaves; over a transport that is made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack

import pytest

from pyslash.agent import gather
from pyslash.agent.gather import Gatherer
from pyslash.agent.landing import Landing, landing
from pyslash.errors import AgentUnavailableError, InvalidRequestError
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Gather, Land
from pyslash.transport import Placed
from tests.agent.blocks import QUERY

OWN = "5" * 32
SECONDS = 20


def peer(digit: int) -> AgentDescriptor:
    """Whose incarnation is made of this digit."""
    return AgentDescriptor(1, 1, 1, 1 << 20, str(digit) * 32, "", f"host{digit}", 1, "", "", "")


def order(peers: Sequence[AgentDescriptor], at: int = 64) -> Land:
    """A range of the block at `at` of each."""
    return Land("tcp", [[one.to_json(), [[at, 0, [[0, 8]]]]] for one in peers])


class Bus:
    """A transport to all peers. `act` is called in each read, with the peer and the blocks' offsets."""

    name = "tcp"

    def __init__(self) -> None:
        self.reads: list[tuple[AgentDescriptor, list[int]]] = []
        self.act: Callable[[AgentDescriptor, list[int]], None] = lambda *_: None
        self.fill: Callable[[AgentDescriptor, Sequence[Placed]], None] = lambda *_: None
        self._lock = threading.Lock()
        self._read_now: set[AgentDescriptor] = set()

    def bring(self, of: AgentDescriptor, blocks: Sequence[Placed]) -> None:
        offsets = [block.offset for block in blocks]
        with self._lock:
            assert of not in self._read_now, "two reads of one peer at once"
            self._read_now.add(of)
            self.reads.append((of, offsets))
        try:
            self.act(of, offsets)
            self.fill(of, blocks)
        finally:
            with self._lock:
                self._read_now.remove(of)


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    """In place of all transports."""
    made = Bus()
    monkeypatch.setattr(gather, "choose_transport", lambda *_: made)
    return made


@pytest.fixture
def room() -> Iterator[Landing]:
    """A landing of 1 MiB."""
    with landing(1 << 20, bytes.fromhex(OWN), QUERY) as made:
        yield made


def land(gatherer: Gatherer, room: Landing, request: Land) -> dict[str, int]:
    return gatherer.land(room, request, (QUERY, b""), SECONDS)


def test_an_agent_begins_with_the_one_that_follows_it(bus: Bus, room: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "_MOST_PEERS_AT_ONCE", 1)
    assert land(Gatherer(bytes.fromhex(OWN)), room, order([peer(digit) for digit in (1, 9, 3, 7)])) == {"tcp": 32}
    assert [one.incarnation[0] for one, _ in bus.reads] == ["7", "9", "1", "3"]


def test_peers_are_read_at_the_same_time(bus: Bus, room: Landing) -> None:
    together = threading.Barrier(4, timeout=SECONDS)  # broken unless all four are being read
    bus.act = lambda *_: (together.wait(), None)[1]
    assert land(Gatherer(bytes.fromhex(OWN)), room, order([peer(digit) for digit in range(4)])) == {"tcp": 32}


def queued(
    gatherer: Gatherer, room: Landing, bus: Bus, tasks: ThreadPoolExecutor, offsets: Sequence[int]
) -> list[Future[dict[str, int]]]:
    """Requests that have all arrived while one peer is being read for another task; their futures, that one's first."""
    begun, go_on = threading.Event(), threading.Event()
    act = bus.act

    def hold(*_: object) -> None:
        bus.act = act
        begun.set()
        assert go_on.wait(SECONDS)

    bus.act = hold
    futures = [tasks.submit(land, gatherer, room, order([peer(1)], 0))]
    assert begun.wait(SECONDS)
    for count, at in enumerate(offsets, 1):
        futures.append(tasks.submit(land, gatherer, room, order([peer(1)], at)))
        while sum(map(len, gatherer._waiting.values())) < count:
            pass
    go_on.set()
    return futures


def test_what_is_asked_of_a_peer_that_is_being_read_goes_into_one_more_read(bus: Bus, room: Landing) -> None:
    gatherer = Gatherer(bytes.fromhex(OWN))
    with ThreadPoolExecutor(8) as tasks:
        futures = queued(gatherer, room, bus, tasks, [64, 128, 192])
        assert [one.result(SECONDS) for one in futures] == [{"tcp": 8}] * 4
    assert bus.reads == [(peer(1), [0]), (peer(1), [64, 128, 192])]
    assert gatherer.figures() == {"reads_of_peers": 2, "bytes_of_peers": {peer(1).incarnation: {"tcp": 32}}}
    assert gatherer._waiting == {}


def sharing(gatherer: Gatherer, version: str = "one") -> AbstractContextManager[Landing]:
    """A landing of a version of the query's state."""
    return gatherer.landing(Gather(1 << 20, SECONDS, version), QUERY)


def fill(bus: Bus, letter: bytes) -> None:
    """What reads bring from now on."""

    def write(_: AgentDescriptor, blocks: Sequence[Placed]) -> None:
        for block in blocks:
            for offset, length in block.ranges:
                block.memory.write(letter * length, block.place + offset)

    bus.fill = write


def read(room: Landing, at: int = 0, length: int = 8) -> bytes:
    return bytes(room.view(at, length))


def test_landings_of_one_version_read_a_range_once(bus: Bus) -> None:
    gatherer = Gatherer(bytes.fromhex(OWN))
    fill(bus, b"a")
    with ExitStack() as stack:
        first, second, other, nobodys = (
            stack.enter_context(sharing(gatherer, version)) for version in ("one", "one", "another", "")
        )
        assert land(gatherer, first, order([peer(1)])) == {"tcp": 8}
        fill(bus, b"b")
        assert land(gatherer, second, Land("tcp", [[peer(1).to_json(), [[64, 512, [[0, 8], [8, 8]]]]]])) == {
            "tcp": 8,
            "shm": 8,
        }
        assert read(second, 512, 16) == b"a" * 8 + b"b" * 8
        for room in (other, nobodys, nobodys):
            assert land(gatherer, room, order([peer(1)])) == {"tcp": 8}
            assert read(room) == b"b" * 8
    assert [offsets for _, offsets in bus.reads] == [[64]] * 5


def test_what_tasks_ask_for_together_is_read_once(bus: Bus) -> None:
    gatherer = Gatherer(bytes.fromhex(OWN))
    fill(bus, b"a")
    with sharing(gatherer) as room, ThreadPoolExecutor(8) as tasks:
        futures = queued(gatherer, room, bus, tasks, [64, 128, 64])
        assert [one.result(SECONDS) for one in futures] == [{"tcp": 8}, {"tcp": 8}, {"tcp": 8}, {"shm": 8}]
    assert bus.reads == [(peer(1), [0]), (peer(1), [64, 128])]


def test_what_comes_by_shared_memory_and_what_is_copied_add_up(bus: Bus) -> None:
    bus.name = "shm"
    gatherer = Gatherer(bytes.fromhex(OWN))
    with sharing(gatherer) as first, sharing(gatherer) as second:
        assert land(gatherer, first, order([peer(1)])) == {"shm": 8}
        two = Land("shm", [[peer(1).to_json(), [[64, 0, [[0, 8], [8, 8]]]]]])
        assert land(gatherer, second, two) == {"shm": 16}
    assert len(bus.reads) == 2


def test_what_lies_in_a_landing_that_has_gone_is_read_again(bus: Bus) -> None:
    gatherer = Gatherer(bytes.fromhex(OWN))
    for _ in range(2):
        with sharing(gatherer) as room:
            assert land(gatherer, room, order([peer(1)])) == {"tcp": 8}
    assert len(bus.reads) == 2
    assert not gatherer._landed._pieces
    assert not gatherer._landed._keys


def test_what_a_failed_read_would_have_brought_is_nobodys(bus: Bus) -> None:
    gatherer = Gatherer(bytes.fromhex(OWN))

    def fail(of: AgentDescriptor, _: list[int]) -> None:
        raise AgentUnavailableError(f"{of} is gone")

    bus.act = fail
    with sharing(gatherer) as first, sharing(gatherer) as second:
        with pytest.raises(AgentUnavailableError, match="host1"):
            land(gatherer, first, order([peer(1)]))
        bus.act = lambda *_: None
        fill(bus, b"a")
        assert land(gatherer, second, order([peer(1)])) == {"tcp": 8}
        assert read(second) == b"a" * 8


def test_a_request_that_is_refused_fails_no_other(bus: Bus, room: Landing) -> None:
    def refuse(_: AgentDescriptor, offsets: list[int]) -> None:
        if 128 in offsets:
            raise InvalidRequestError("no block to read lies at 128")

    bus.act = refuse
    with ThreadPoolExecutor(8) as tasks:
        first, *others = queued(Gatherer(bytes.fromhex(OWN)), room, bus, tasks, [64, 128, 192])
        failures = [one.exception(SECONDS) for one in (first, *others)]
    assert [type(failure) for failure in failures] == [type(None), type(None), InvalidRequestError, type(None)]


def test_a_peer_that_is_gone_fails_all_that_wait_for_it_after_one_try(bus: Bus, room: Landing) -> None:
    def fail(of: AgentDescriptor, offsets: list[int]) -> None:
        if 64 in offsets:
            raise AgentUnavailableError(f"{of} is gone")

    bus.act = fail
    with ThreadPoolExecutor(8) as tasks:
        first, *others = queued(Gatherer(bytes.fromhex(OWN)), room, bus, tasks, [64, 128])
        assert first.result(SECONDS) == {"tcp": 8}
        for one in others:
            with pytest.raises(AgentUnavailableError, match="host1"):
                one.result(SECONDS)
    assert bus.reads[1:] == [(peer(1), [64, 128])]


def test_after_a_failure_nothing_is_written_any_more(bus: Bus, room: Landing) -> None:
    failed, at_work = threading.Event(), threading.Event()

    def act(of: AgentDescriptor, _: list[int]) -> None:
        if of == peer(6):
            assert at_work.wait(SECONDS)
            failed.set()
            raise AgentUnavailableError("gone")
        at_work.set()
        assert failed.wait(SECONDS)

    bus.act = act
    gatherer = Gatherer(bytes.fromhex(OWN))
    with pytest.raises(AgentUnavailableError, match="gone"):
        land(gatherer, room, order([peer(6), peer(7)]))
    assert bus._read_now == set()
    bus.act = lambda *_: None
    assert land(gatherer, room, order([peer(6), peer(7)])) == {"tcp": 16}
