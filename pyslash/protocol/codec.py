"""How requests travel: JSON of a fixed form, checked field by field before anything is done with them."""

from __future__ import annotations

import json
from functools import cache
from typing import TypeVar, get_type_hints

from pyslash.errors import InvalidRequestError
from pyslash.protocol import messages
from pyslash.protocol.bounds import MAX_RANGES_BYTES, MAX_SMALL_BYTES, Check
from pyslash.protocol.messages import Land, Read, Request
from pyslash.protocol.wire import MAX_BODY_BYTES

Form = TypeVar("Form", bound=Request)


def parse(form: type[Form], body: bytes) -> Form:
    """`body` as a request of this form.

    Raises:
        InvalidRequestError: too long, no JSON object, a field missing, unknown, of the wrong type or out of range.
    """
    name = form.__name__.lower()
    checks = checks_of(form.__name__)
    most = MAX_RANGES_BYTES if form in (Land, Read) else MAX_BODY_BYTES if "plan" in checks else MAX_SMALL_BYTES
    if len(body) > most:
        raise InvalidRequestError(f"a {name} request has at most {most} bytes, not {len(body)}")
    try:
        record = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise InvalidRequestError(f"the body of a {name} request is not JSON") from None
    if type(record) is not dict or set(record) != set(checks):
        found = sorted(record) if type(record) is dict else type(record).__name__
        raise InvalidRequestError(f"a {name} request has the fields {sorted(checks)}, not {found}")
    for named, check in checks.items():
        if not check(record[named]):
            raise InvalidRequestError(f"field {named} of a {name} request has the wrong type or is out of range")
    return form(**record)


def body(form: Request) -> bytes:
    """The bytes that `parse` reads."""
    return json.dumps(form.__dict__, separators=(",", ":")).encode()


@cache
def checks_of(form: str) -> dict[str, Check]:
    """How each field of a message is checked, as its annotation says."""
    hints = get_type_hints(getattr(messages, form), include_extras=True)
    return {name: kind.__metadata__[0] for name, kind in hints.items()}
