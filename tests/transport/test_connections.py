"""Connections to peers that are gone do not stay for ever."""

from __future__ import annotations

import pytest

from pyslash.transport.connections import Connections


class Connection:
    closed = False

    def close(self) -> None:
        self.closed = True


def test_what_nobody_uses_is_closed_when_another_peer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("pyslash.transport.connections.time.monotonic", lambda: now)
    kept = Connections[str, Connection]()
    gone, used = kept.of("gone", Connection), kept.of("used", Connection)
    for _ in range(4):
        now += 200
        assert kept.of("used", Connection) is used
    assert not gone.closed
    new = kept.of("new", Connection)
    assert (gone.closed, used.closed, new.closed) == (True, False, False)
    again = kept.of("gone", Connection)
    assert again is not gone
    kept.close()
    assert all(one.closed for one in (used, new, again))
