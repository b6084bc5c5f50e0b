"""How py4j is set: the application's secret stays out of its log, and what it sends goes at once.

At DEBUG py4j writes every command to the JVM with all its arguments. The secret and tokens are such arguments, in
Base64: by themselves, within JSON, and within the pickled functions of tasks. So what is long and without a blank or a
point, as all of these are wherever they begin, is left out.

An answer of more than 8 KiB it sends in parts. TCP would hold the second one until the first is acknowledged, which
Linux puts off by 40 ms: more than else a small epoch costs.
"""

from __future__ import annotations

import logging
import re
import socket
from typing import Any

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject

LOGGERS = ("py4j.clientserver", "py4j.java_gateway")
# A key of 32 bytes has 64 hex digits, or 43 letters of Base64; at least 40 of these stand together in any other Base64.
_LONG = re.compile(r"[A-Za-z0-9+/=_-]{40,}")
_SERVER = "GATEWAY_SERVER"  # py4j's name of the gateway itself


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


def send_at_once(gateway: Any) -> Any:
    """Set TCP_NODELAY on both ends of the connection by which the JVM has called this thread, and give the JVM's end.

    Nothing where PySpark does not pin threads (PYSPARK_PIN_THREAD=false): answers then come by any connection.
    """
    of_jvm = None
    if isinstance(gateway, ClientServer):
        gateway._gateway_client.get_thread_connection().socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        of_jvm = JavaObject(_SERVER, gateway._gateway_client).getCallbackClient().getPerThreadConnection()
        of_jvm.getSocket().setTcpNoDelay(True)
    return of_jvm
