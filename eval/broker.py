"""A Kafka broker of one's own, as a plain JVM: for tests, measurements and examples.

Its jars, and those of Spark's connector and of Delta, are in `build/pipelines` once `scripts/pipelines.sh` has brought
them.
"""

from __future__ import annotations

import base64
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

JARS = Path(__file__).resolve().parents[1] / "build" / "pipelines"
_START_SECONDS = 180  # a machine that tests run on may be busy
_STOP_SECONDS = 30
_LOG = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


class BrokerError(Exception):
    """There is no broker; the message says what is missing, or what it said."""


def connector() -> str:
    """Spark's connector with all that it needs, as `spark.jars` takes it.

    Raises:
        BrokerError: it is not there.
    """
    return ",".join(map(str, _jars("connector")))


def delta() -> str:
    """Delta with all that it needs, as `spark.jars` takes it.

    Raises:
        BrokerError: it is not there.
    """
    return ",".join(map(str, _jars("delta")))


def avro() -> str:
    """Spark's functions of Avro, as `spark.jars` takes them.

    Raises:
        BrokerError: they are not there.
    """
    return ",".join(map(str, _jars("avro")))


@contextmanager
def broker(partitions: int = 2, cores: Collection[int] = (), password: str = "") -> Iterator[str]:
    """The address of a broker on the loopback interface; new topics have so many partitions.

    Args:
        partitions: of new topics.
        cores: where it runs; anywhere, if there are none.
        password: if there is one, clients name themselves `client` with it, by SASL/PLAIN.

    Raises:
        BrokerError: its jars are not there, or it does not start.
    """
    java = ["java", "-Xmx1g", _LOG, "-cp", ":".join(map(str, _jars("broker")))]
    folder = Path(tempfile.mkdtemp(prefix="broker-"))
    try:
        port, controller = _free_ports()
        settings = folder / "server.properties"
        settings.write_text(_settings(folder / "data", port, controller, partitions, password))
        cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        with (folder / "log").open("wb") as log:
            # The name may begin with a hyphen, and is to be no option then.
            named = f"--cluster-id={cluster}"
            _run([*java, "kafka.tools.StorageTool", "format", named, "-c", str(settings)], log.name)
            command = [*on_cores(cores), *java, "kafka.Kafka", str(settings)]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_for(port, process, folder / "log")
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(folder)


def on_cores(cores: Collection[int]) -> list[str]:
    """What goes before a command that is to run on these cores alone; on any, if there are none."""
    return ["taskset", "--cpu-list", ",".join(map(str, cores))] if cores else []


def _jars(of: str) -> list[Path]:
    if not (JARS / of / ".complete").exists():
        raise BrokerError(f"{JARS / of} is not complete: scripts/pipelines.sh brings it from Maven Central")
    return sorted((JARS / of).glob("*.jar"))


def _settings(data: Path, port: int, controller: int, partitions: int, password: str) -> str:
    protocol = "SASL_PLAINTEXT" if password else "PLAINTEXT"
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocol}:{protocol}",
        "security.inter.broker.protocol": protocol,
        "log.dirs": data,
        "num.partitions": partitions,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.backoff.ms": 100,
    }
    if password:
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        name = f'{login} username="client" password="{password}" user_client="{password}";'
        settings["sasl.enabled.mechanisms"] = settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
        settings[f"listener.name.{protocol.lower()}.plain.sasl.jaas.config"] = name
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _run(command: list[str], log: str) -> None:
    with open(log, "ab") as target:
        done = subprocess.run(command, stdout=target, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise BrokerError(f"{' '.join(command)} failed: {Path(log).read_text()[-2000:]}")


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise BrokerError(f"the broker did not start: {log.read_text()[-2000:]}")
