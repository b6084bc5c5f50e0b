"""Who may ask an agent what: a token for each query and right, derived from the application's secret.

Only the driver, the executors and the agents know the secret. Merge tasks read under a token that opens one query's
blocks for reading and does nothing else. A token never travels to an agent: `wire` proves that both sides know it.
"""

from __future__ import annotations

import enum
import hashlib
import hmac

SECRET_BYTES = 32
QUERY_BYTES = 16


class Right(enum.IntEnum):
    """What a token allows; each includes those before it."""

    READ = 1
    """Blocks, and what an agent holds of the query: merge tasks."""
    REPLICATE = 2
    """Writing into the room of a replica, and such room with a grant: other agents."""
    DRIVE = 3
    """Everything, but directories only with a grant: the driver."""


def query_token(secret: bytes, query: bytes, right: Right = Right.DRIVE) -> bytes:
    """The token of a query (16-byte id): the right as one byte, and a key of 32 bytes.

    The key of `DRIVE` is the HMAC-SHA256 of `pyslash-query` and the id under the secret; those of other rights are
    HMACs under that key, so that a token tells nothing of a stronger one.
    """
    if len(secret) != SECRET_BYTES or len(query) != QUERY_BYTES:
        raise ValueError(
            f"a secret has {SECRET_BYTES} bytes and a query id {QUERY_BYTES}, not {len(secret)} and {len(query)}"
        )
    key = hmac.digest(secret, b"pyslash-query" + query, "sha256")
    if right is not Right.DRIVE:
        key = hmac.digest(key, b"pyslash-right" + bytes([right]), "sha256")
    return bytes([right]) + key


def directory_grant(secret: bytes, query: bytes, directory: str) -> str:
    """Hex digits by which who knows the secret lets a query's driver name this directory to an agent."""
    return hmac.digest(secret, b"pyslash-directory" + query + directory.encode(), "sha256").hex()


def request_grant(secret: bytes, query: bytes, request: bytes) -> str:
    """Hex digits by which an agent that a driver has told to replicate makes this very request to a standby."""
    return hmac.digest(secret, b"pyslash-request" + query + request, "sha256").hex()


def secret_name(secret: bytes) -> str:
    """16 hex digits that tell applications with different secrets apart and give nothing of the secret away."""
    return hashlib.sha256(b"pyslash-secret-name" + secret).hexdigest()[:16]
