"""Who may ask an agent what: a bearer token for each query, derived from the application's secret.

Only the driver, the executors and the agents know the secret. A merge task is given one query's token, which opens that
query's blocks and no others.
"""

from __future__ import annotations

import hashlib
import hmac

SECRET_BYTES = 32
QUERY_HEADER = "x-pyslash-query"
TOKEN_HEADER = "authorization"
INCARNATION_HEADER = "x-pyslash-incarnation"
_SCHEME = "Bearer "


def query_token(secret: bytes, query: bytes) -> bytes:
    """The 32-byte token of a query (16-byte id): HMAC-SHA256 of `pyslash-query` and the id under the secret."""
    if len(secret) != SECRET_BYTES or len(query) != 16:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes and a query id 16, not {len(secret)} and {len(query)}")
    return hmac.digest(secret, b"pyslash-query" + query, "sha256")


def secret_name(secret: bytes) -> str:
    """16 hex digits that tell applications with different secrets apart and give nothing of the secret away."""
    return hashlib.sha256(b"pyslash-secret-name" + secret).hexdigest()[:16]


def headers(query: bytes, token: bytes, incarnation: str) -> list[tuple[bytes, bytes]]:
    """The headers of every call: for which query, by what right, and to which agent."""
    return [
        (QUERY_HEADER.encode(), query.hex().encode()),
        (TOKEN_HEADER.encode(), (_SCHEME + token.hex()).encode()),
        (INCARNATION_HEADER.encode(), incarnation.encode()),
    ]


def verify(secret: bytes, received: dict[str, list[str | bytes]]) -> bytes | None:
    """The query id that `received` headers prove the right to, or None."""
    query, token = single(received, QUERY_HEADER), single(received, TOKEN_HEADER)
    if query is None or token is None or not token.startswith(_SCHEME):
        return None
    try:
        query_id, given = bytes.fromhex(query), bytes.fromhex(token[len(_SCHEME) :])
    except ValueError:
        return None
    if len(query_id) != 16 or not hmac.compare_digest(query_token(secret, query_id), given):
        return None
    return query_id


def single(received: dict[str, list[str | bytes]], name: str) -> str | None:
    """The text of a header that came exactly once."""
    values = received.get(name, [])
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None
