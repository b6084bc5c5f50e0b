"""Keeps the application's secret, and what is derived from it, out of py4j's log.

At DEBUG py4j writes every command to the JVM with all its arguments. The secret and tokens are such arguments, in
Base64: by themselves, within JSON, and within the pickled functions of tasks. So what is long and without a blank or a
point, as all of these are wherever they begin, is left out.
"""

from __future__ import annotations

import logging
import re

LOGGERS = ("py4j.clientserver", "py4j.java_gateway")
# A key of 32 bytes has 64 hex digits, or 43 letters of Base64; at least 40 of these stand together in any other Base64.
_LONG = re.compile(r"[A-Za-z0-9+/=_-]{40,}")


class _WithoutSecrets(logging.Filter):
    """Rewrites a record; every handler gets it so."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        record.msg, record.args = _LONG.sub(lambda found: f"({len(found[0])} characters)", text), ()
        return True


_filter = _WithoutSecrets()


def leave_out_secrets() -> None:
    """Once is enough, and again does nothing."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_filter)
