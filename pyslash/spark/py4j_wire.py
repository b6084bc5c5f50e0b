"""Has py4j send at once what the JVM and this process tell each other.

py4j writes an answer of more than 8 KiB in parts, and TCP holds the second one until the first is acknowledged, which
Linux puts off by 40 ms: more than a small epoch costs otherwise.
"""

from __future__ import annotations

import socket
from typing import Any

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject

_SERVER = "GATEWAY_SERVER"  # py4j's name of the gateway itself


def send_at_once(gateway: Any) -> None:
    """Set TCP_NODELAY on both ends of the connection by which the JVM has called this thread.

    Nothing where PySpark does not pin threads (PYSPARK_PIN_THREAD=false): answers then come by any connection.
    """
    if isinstance(gateway, ClientServer):
        gateway._gateway_client.get_thread_connection().socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        jvm_client = JavaObject(_SERVER, gateway._gateway_client).getCallbackClient()
        jvm_client.getPerThreadConnection().getSocket().setTcpNoDelay(True)
