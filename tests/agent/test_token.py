"""Tokens: who holds one query's may not speak for another, and who may read may not do more."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from pyslash.protocol.token import Right, directory_grant, query_token, secret_name

SECRET, QUERY = bytes(range(32)), bytes(range(16))


def test_the_driver_s_token_is_an_hmac_of_the_query() -> None:
    key = hmac.new(SECRET, b"pyslash-query" + QUERY, hashlib.sha256).digest()
    assert query_token(SECRET, QUERY) == bytes([Right.DRIVE]) + key


def test_every_query_secret_and_right_has_a_token_of_its_own() -> None:
    tokens = [
        query_token(secret, query, right)
        for secret in (SECRET, SECRET[::-1])
        for query in (QUERY, QUERY[::-1])
        for right in Right
    ]
    assert len({token[1:] for token in tokens}) == len(tokens) == 12
    assert [token[0] for token in tokens] == [1, 2, 3] * 4


def test_lengths_are_checked() -> None:
    for secret, query in ((b"", QUERY), (SECRET, b""), (SECRET + b"x", QUERY)):
        with pytest.raises(ValueError, match="32 bytes"):
            query_token(secret, query)


def test_a_grant_is_for_one_directory_of_one_query() -> None:
    grants = {
        directory_grant(secret, query, directory)
        for secret in (SECRET, SECRET[::-1])
        for query in (QUERY, QUERY[::-1])
        for directory in ("/a", "/a/", "/b")
    }
    assert len(grants) == 12


def test_a_name_tells_secrets_apart_and_is_not_one() -> None:
    assert secret_name(SECRET) != secret_name(SECRET[::-1])
    assert secret_name(SECRET) not in SECRET.hex()
