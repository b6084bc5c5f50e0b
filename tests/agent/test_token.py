"""Tokens: who holds one query's may not speak for another."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from pyslash.agent.token import QUERY_HEADER, TOKEN_HEADER, headers, query_token, secret_name, verify

SECRET, QUERY = bytes(range(32)), bytes(range(16))


def received(query: bytes, token: bytes) -> dict[str, list[str | bytes]]:
    return {name.decode(): [value.decode()] for name, value in headers(query, token, "00" * 16)}


def test_a_token_is_an_hmac_of_the_query() -> None:
    assert query_token(SECRET, QUERY) == hmac.new(SECRET, b"pyslash-query" + QUERY, hashlib.sha256).digest()


def test_the_right_token_gives_the_query() -> None:
    assert verify(SECRET, received(QUERY, query_token(SECRET, QUERY))) == QUERY


@pytest.mark.parametrize("bit", [0, 7, 100, 255])
def test_a_token_with_one_bit_changed_gives_nothing(bit: int) -> None:
    token = bytearray(query_token(SECRET, QUERY))
    token[bit // 8] ^= 1 << bit % 8
    assert verify(SECRET, received(QUERY, bytes(token))) is None


def test_malformed_headers_give_nothing() -> None:
    good = received(QUERY, query_token(SECRET, QUERY))
    for name in (QUERY_HEADER, TOKEN_HEADER):
        for values in ([], ["x"], [b"\xff"], good[name] * 2, [str(good[name][0])[:-1]], [str(good[name][0]) + "00"]):
            assert verify(SECRET, {**good, name: values}) is None
        assert verify(SECRET, {key: value for key, value in good.items() if key != name}) is None
    other = received(QUERY[::-1], query_token(SECRET, QUERY))
    assert verify(SECRET, other) is None
    assert verify(SECRET, {**good, TOKEN_HEADER: ["Bearer é" + "0" * 62]}) is None


def test_lengths_are_checked() -> None:
    for secret, query in ((b"", QUERY), (SECRET, b""), (SECRET + b"x", QUERY)):
        with pytest.raises(ValueError, match="32 bytes"):
            query_token(secret, query)


def test_a_name_tells_secrets_apart_and_is_not_one() -> None:
    assert secret_name(SECRET) != secret_name(SECRET[::-1])
    assert secret_name(SECRET) not in SECRET.hex()
