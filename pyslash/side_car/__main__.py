"""The Python process beside a driver that has none with pyslash: `python -m pyslash.side_car`.

`io.pyslash.plugin.SideCar` starts it and writes the port and the secret of a py4j gateway to its standard input. That
input ends with the JVM, and so does this process.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from typing import Any

# Of a driver that is a server or a client of Spark Connect; this process is neither.
_CONNECT = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")


def main() -> None:
    """Answer the JVM until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is the driver's
    port, secret = sys.stdin.readline().split()
    jvm = threading.Thread(target=_end_with_the_jvm, name="pyslash-jvm", daemon=True)
    jvm.start()
    for name in _CONNECT:
        os.environ.pop(name, None)
    gateway = _gateway(port, secret)
    door = gateway.entry_point
    if (obstacle := _obstacle(door)) is not None:
        door.refuse(obstacle)
        return
    _answer(gateway, door)
    jvm.join()


def _end_with_the_jvm() -> None:
    """Whatever other threads do."""
    sys.stdin.read()
    os._exit(0)


def _gateway(port: str, secret: str) -> Any:
    """As PySpark's own, and calls from the JVM have to know the secret too."""
    from pyspark.java_gateway import ensure_callback_server_started, launch_gateway

    told = {"PYSPARK_GATEWAY_PORT": port, "PYSPARK_GATEWAY_SECRET": secret, "PYSPARK_PIN_THREAD": "true"}
    os.environ.update(told)
    try:
        gateway = launch_gateway()
    finally:
        for name in told:
            del os.environ[name]
    gateway.callback_server_parameters.auth_token = secret
    ensure_callback_server_started(gateway)
    return gateway


def _obstacle(door: Any) -> str | None:
    """Why this Python is of no use to that JVM; None: it is."""
    from pyspark import __version__

    spark = str(door.context().version())
    if _release(spark) != _release(__version__):
        return f"has PySpark {__version__} beside Spark {spark}; install the PySpark of the cluster's release"
    return None


def _release(version: str) -> str:
    """Its numbers alone: vendors and previews spell the rest differently on both sides."""
    found = re.match(r"\d+(\.\d+)*", version)
    return found[0] if found else version


def _answer(gateway: Any, door: Any) -> None:
    """Make what PySpark makes in a driver, over the context that is there."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from pyslash.driver.start import hook
    from pyslash.driver.start.plugin import FiguresCallback, PluginCallback
    from pyslash.side_car.questions import QuestionsCallback
    from pyslash.spark import session, spark_log
    from pyslash.spark.py4j_settings import leave_out_secrets

    java = door.context()
    context = SparkContext(conf=SparkConf(_jconf=java.getConf()), gateway=gateway, jsc=java)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # PySpark has set it otherwise
    sessions = gateway.jvm.org.apache.spark.sql.classic.SparkSession
    default = sessions.getDefaultSession()
    spark = SparkSession(context, door.session())
    # The first one that PySpark makes it takes for the default one; the application's choice stays.
    if default.isDefined():
        sessions.setDefaultSession(default.get())
    else:
        sessions.clearDefaultSession()
    session.choose_python(spark, beside=True)
    spark_log.install()
    leave_out_secrets()
    hook.share(bytes.fromhex(str(door.secret())))
    door.answer(PluginCallback(context), FiguresCallback(), QuestionsCallback(context))


if __name__ == "__main__":
    main()
