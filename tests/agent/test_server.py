"""The control plane: who may ask, what may be asked, and what each action does to the arena."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

from pyslash import _native
from pyslash.errors import (
    AgentTimeoutError,
    AgentUnavailableError,
    InvalidRequestError,
    StaleIncarnationError,
    UnauthenticatedError,
)
from pyslash.protocol.bounds import MAX_OFFSETS
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Empty
from pyslash.protocol.token import query_token
from pyslash.protocol.wire import MAX_BODY_BYTES, Kind
from pyslash.state.block_state import BlockState
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, attach, merged, write
from tests.agent.raw import opened, soon


def states(agent: AgentDescriptor) -> list[int]:
    """States of the arena's blocks, in order of offset."""
    return [block[2] for block in attach(agent).blocks()]


@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_a_token_of_another_query_or_secret_is_refused(agent: AgentDescriptor, secret: bytes, via: str) -> None:
    for token in (query_token(secret, OTHER_QUERY), query_token(bytes(32), QUERY), b""):
        with AgentClient(agent, QUERY, token, via=via) as forged, pytest.raises(UnauthenticatedError):
            forged.describe()
        with AgentClient(agent, QUERY, token, via=via) as forged, pytest.raises(UnauthenticatedError):
            forged.read(0, [(0, 64)])


@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_commit_takes_what_it_names_and_frees_the_rest(agent: AgentDescriptor, secret: bytes, via: str) -> None:
    winner, zombie, later = write(agent, 0, [0]), write(agent, 0, [0], attempt=1), write(agent, 1, [0])
    with AgentClient(agent, QUERY, query_token(secret, QUERY), via=via) as client:
        reply = client.commit(0, [winner.arena_offset], PLAN)
    assert reply.freed == 1
    assert [_native.Head(head).arena_offset for head in reply.blocks] == [winner.arena_offset]
    left = {block[0]: block[2] for block in attach(agent).blocks()}
    assert left == {winner.arena_offset: BlockState.COMMITTED, later.arena_offset: BlockState.PUBLISHED}
    assert zombie.arena_offset not in left


def test_a_repeated_commit_gives_the_same_answer(agent: AgentDescriptor, client: AgentClient) -> None:
    head = write(agent, 3, [0])
    first = client.commit(3, [head.arena_offset], PLAN)
    assert client.commit(3, [head.arena_offset], PLAN) == first


def test_commits_accumulate(agent: AgentDescriptor, client: AgentClient) -> None:
    for epoch in range(3):
        reply = client.commit(epoch, [write(agent, epoch, [0]).arena_offset], PLAN)
    assert len(reply.blocks) == 3
    assert merged(agent, reply.blocks, [0]) == [(0, key, 3 * key) for key in range(100)]


def test_the_head_of_a_block_of_very_many_panes_is_told(agent: AgentDescriptor, client: AgentClient) -> None:
    head = write(agent, 0, [*range(0, 700_000, 10)], keys=range(1))
    assert 4 * head.head_length // 3 > MAX_BODY_BYTES
    (told,) = client.commit(0, [head.arena_offset], PLAN).blocks
    assert told == bytes(attach(agent).view(head.arena_offset, head.head_length))
    assert client.live().blocks == [told]


def test_an_epoch_without_blocks_is_an_epoch(agent: AgentDescriptor, client: AgentClient) -> None:
    head = write(agent, 0, [0])
    client.commit(0, [head.arena_offset], PLAN)
    assert len(client.commit(1, [], PLAN).blocks) == 1
    assert client.describe().epoch == 1


def test_commits_that_contradict_are_refused_and_change_nothing(agent: AgentDescriptor, client: AgentClient) -> None:
    head, other = write(agent, 5, [0]), write(agent, 6, [0])
    client.commit(5, [head.arena_offset], PLAN)
    foreign = write(agent, 6, [0], query=OTHER_QUERY)
    before = client.describe(), states(agent)
    for epoch, offsets, plan in [
        (5, [], PLAN),  # the same epoch, other blocks
        (4, [head.arena_offset], PLAN),  # an older epoch
        (6, [head.arena_offset], PLAN),  # committed long since
        (6, [other.arena_offset + 64], PLAN),  # no block starts there
        (6, [foreign.arena_offset], PLAN),  # another query's
        (7, [other.arena_offset], PLAN),  # another epoch's
        (6, [other.arena_offset], PLAN + "aggregate max 2 1\n"),  # another plan
    ]:
        with pytest.raises(InvalidRequestError):
            client.commit(epoch, offsets, plan)
    assert (client.describe(), states(agent)) == before


def test_release_frees_blocks_whose_panes_are_all_dead(agent: AgentDescriptor, client: AgentClient) -> None:
    old, mixed = write(agent, 0, [0]), write(agent, 0, [0, 10])
    client.commit(0, [old.arena_offset, mixed.arena_offset], PLAN)
    assert client.release(10_000_000) == 1
    assert [_native.Head(head).arena_offset for head in client.live().blocks] == [mixed.arena_offset]
    assert client.release(0) == 0  # going back is not an error, and frees nothing
    assert client.release(20_000_000) == 1
    assert attach(agent).blocks() == []


def test_discard_frees_an_epoch_that_was_not_committed(agent: AgentDescriptor, client: AgentClient) -> None:
    kept = write(agent, 0, [0])
    client.commit(0, [kept.arena_offset], PLAN)
    write(agent, 1, [0])
    assert client.discard(1) == 1
    assert states(agent) == [BlockState.COMMITTED]
    with pytest.raises(InvalidRequestError, match="has been committed"):
        client.discard(0)


def test_drop_frees_everything_of_the_query_and_of_no_other(agent: AgentDescriptor, client: AgentClient) -> None:
    client.commit(0, [write(agent, 0, [0]).arena_offset], PLAN)
    write(agent, 1, [0])
    foreign = write(agent, 0, [0], query=OTHER_QUERY)
    assert client.drop() == 2
    assert [block[0] for block in attach(agent).blocks()] == [foreign.arena_offset]
    with pytest.raises(InvalidRequestError, match="was dropped"):
        client.commit(2, [], PLAN)


def test_a_query_that_is_dropped_twice_stays_dropped(agent: AgentDescriptor, client: AgentClient) -> None:
    client.commit(0, [write(agent, 0, [0]).arena_offset], PLAN, 5)
    for _ in range(2):
        client.drop()
    with pytest.raises(InvalidRequestError, match="was dropped"):
        client.commit(1, [write(agent, 1, [0]).arena_offset], PLAN, 5)


def test_a_query_s_blocks_are_its_own(agent: AgentDescriptor, client: AgentClient, secret: bytes) -> None:
    head = write(agent, 0, [0])
    client.commit(0, [head.arena_offset], PLAN)
    with AgentClient(agent, OTHER_QUERY, query_token(secret, OTHER_QUERY)) as other:
        assert other.describe().blocks == 0
        with pytest.raises(InvalidRequestError, match="no block to read"):
            other.read(head.arena_offset, [(0, 64)])


def test_reads_stay_inside_committed_blocks(agent: AgentDescriptor, client: AgentClient) -> None:
    head, uncommitted = write(agent, 0, [0]), write(agent, 1, [0])
    client.commit(0, [head.arena_offset], PLAN)
    view = attach(agent).view(head.arena_offset, head.length)
    (whole,) = client.read(head.arena_offset, [(0, head.length)])
    assert bytes(whole) == bytes(view)
    for offset, ranges in [
        (head.arena_offset, [(0, head.length + 1)]),
        (head.arena_offset, [(head.length, 1)]),
        (head.arena_offset + 64, [(0, 1)]),
        (uncommitted.arena_offset, [(0, 64)]),
        (0, [(0, 64)]),
    ]:
        with pytest.raises(InvalidRequestError):
            client.read(offset, ranges)


MALFORMED = [
    ("commit", b"{"),
    ("commit", b"[]"),
    ("commit", b"{}"),
    ("commit", b'{"epoch": 1, "offsets": [], "plan": "p", "more": 1}'),
    ("commit", b'{"epoch": "1", "offsets": [], "plan": "p"}'),
    ("commit", b'{"epoch": true, "offsets": [], "plan": "p"}'),
    ("commit", b'{"epoch": -1, "offsets": [], "plan": "p"}'),
    ("commit", b'{"epoch": 9223372036854775807, "offsets": [], "plan": "p"}'),
    ("commit", b'{"epoch": 1, "offsets": [-1], "plan": "p"}'),
    ("commit", b'{"epoch": 1, "offsets": [1.5], "plan": "p"}'),
    ("commit", json.dumps({"epoch": 1, "offsets": [0] * (MAX_OFFSETS + 1), "plan": "p"}).encode()),
    ("commit", b"x" * ((4 << 20) - 8)),
    ("commit", b"[" * 100000),
    ("release", b'{"before_pane": 1e300}'),
    ("release", b'{"before_pane": 99999999999999999999}'),
    ("discard", b'{"epoch": null}'),
    ("drop", b'{"all": true}'),
    ("stats", b"0"),
    ("logs", b'{"last_bytes": 0}'),
    ("logs", b'{"last_bytes": 1000000000}'),
]


def test_malformed_requests_are_refused(agent: AgentDescriptor, secret: bytes) -> None:
    for action, body in MALFORMED:
        with opened(agent, query_token(secret, QUERY)) as channel:
            channel.send(Kind.CALL, f"{action} \n".encode() + body, soon())
            kind, answer = channel.receive(soon())
            refused = kind, answer.partition(b"\n")[0]
            assert refused == (Kind.ERROR, b"InvalidRequestError"), (action, body[:80])
            channel.send(Kind.CALL, b"stats \n{}", soon())
            assert channel.receive(soon())[0] is Kind.RESULT  # and it still answers


def test_an_unknown_action_and_a_bad_plan_are_refused(client: AgentClient) -> None:
    with pytest.raises(Exception, match="there is no action"):
        client.act("format_disk", Empty())
    with pytest.raises(Exception, match="plan"):
        client.commit(0, [], "no plan at all")


def test_a_descriptor_of_an_earlier_agent_is_stale(agent: AgentDescriptor, secret: bytes) -> None:
    earlier = AgentDescriptor(**{**agent.to_record(), "incarnation": "00" * 16})
    with AgentClient(earlier, QUERY, query_token(secret, QUERY)) as client:
        with pytest.raises(StaleIncarnationError):
            client.describe()
        with pytest.raises(StaleIncarnationError):
            client.read(0, [(0, 64)])


def test_an_agent_that_is_gone_is_named(agent: AgentDescriptor, client: AgentClient) -> None:
    os.kill(agent.pid, signal.SIGKILL)
    with pytest.raises(AgentUnavailableError, match=f"pid {agent.pid}.*describe"):
        client.describe()


def test_an_agent_that_is_stuck_is_waited_for_until_the_deadline(agent: AgentDescriptor, secret: bytes) -> None:
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        with (
            AgentClient(agent, QUERY, query_token(secret, QUERY), timeout_seconds=0.3) as client,
            pytest.raises((AgentTimeoutError, AgentUnavailableError), match="describe"),
        ):
            client.describe()
    finally:
        os.kill(agent.pid, signal.SIGCONT)


def test_stats_and_logs(agent: AgentDescriptor, client: AgentClient) -> None:
    head = write(agent, 0, [0])
    client.commit(0, [head.arena_offset], PLAN)
    client.read(head.arena_offset, [(0, 128)])
    stats = client.stats()
    assert stats["counters"]["commits"] == 1
    assert stats["counters"]["bytes served"] == 128
    figures = stats["queries"][QUERY.hex()]
    assert (figures["epoch"], figures["blocks"], figures["bytes"]) == (0, 1, head.length)
    assert stats["rss_bytes"] > 0
    assert stats["open_fds"] > 0
    assert "serves JVM" in client.logs()
    assert len(client.logs(last_bytes=10)) <= 10


def test_many_clients_at_once(agent: AgentDescriptor, secret: bytes) -> None:
    head = write(agent, 0, [0], keys=range(20000))
    failures: list[Exception] = []
    with AgentClient(agent, QUERY, query_token(secret, QUERY)) as first:
        first.commit(0, [head.arena_offset], PLAN)
    expected = bytes(attach(agent).view(head.arena_offset, head.length))

    def reader() -> None:
        try:
            with AgentClient(agent, QUERY, query_token(secret, QUERY), via="tcp") as client:
                for _ in range(5):
                    assert bytes(client.read(head.arena_offset, [(0, head.length)])[0]) == expected
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=reader) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
