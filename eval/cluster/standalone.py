"""A Spark standalone cluster over some hosts: the master beside the driver, one worker a host."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eval.cluster.hosts import Host
from eval.cluster.launcher import Daemon, Launcher, Local

START_SECONDS = 300
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Cluster:
    """What every standalone cluster of a measurement has in common.

    `spark_home` is the same path on all hosts. `driver` is this machine's address as the hosts reach it. `logs` holds
    the daemons' output, here; `work` their executors' files, on each host.
    """

    launcher: Launcher
    spark_home: Path
    driver: str
    memory: str
    logs: Path
    work: Path

    @contextmanager
    def over(self, hosts: Sequence[Host]) -> Iterator[str]:
        """The master's URL while workers run on these hosts; all of it has ended afterwards.

        Raises:
            ClusterError: a daemon ended, with the end of its log.
            TimeoutError: the workers had not come.
        """
        port, web = free_port(self.driver), free_port(self.driver)
        url = f"spark://{self.driver}:{port}"
        spark_class = str(self.spark_home / "bin" / "spark-class")
        self.logs.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            here = Host("driver", 1, address=self.driver)
            master = [spark_class, f"{_DEPLOY}.master.Master", "--host", self.driver, "--port", str(port)]
            master += ["--webui-port", str(web)]
            log = self.logs / "master.log"
            daemons = [stack.enter_context(Daemon(Local(), here, master, self._environment(here), log))]
            for number, host in enumerate(hosts):
                worker = [spark_class, f"{_DEPLOY}.worker.Worker", "--host", host.listens]
                worker += ["--cores", str(host.slots), "--memory", self.memory]
                worker += ["--work-dir", str(self.work / f"worker-{number}"), url]
                log = self.logs / f"worker-{number}.log"
                daemons.append(stack.enter_context(Daemon(self.launcher, host, worker, self._environment(host), log)))

            def alive() -> None:
                for daemon in daemons:
                    daemon.check()

            wait_for_workers(f"http://{self.driver}:{web}/json/", len(hosts), START_SECONDS, alive)
            yield url

    def _environment(self, host: Host) -> dict[str, str]:
        """A worker's executors inherit it."""
        device = {"PYSLASH_RDMA_DEVICE": host.device} if host.device else {}
        return {"SPARK_HOME": str(self.spark_home), "SPARK_LOCAL_IP": host.listens, "SPARK_NO_DAEMONIZE": "1", **device}


def wait_for_workers(url: str, workers: int, seconds: float, alive: Callable[[], None] = lambda: None) -> None:
    """Return once the master, asked at `url` for its state as JSON, knows so many.

    `alive` is called between the questions, and raises if waiting has become vain.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        alive()
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == workers:
                    return
        except (OSError, json.JSONDecodeError):
            pass  # nothing answers yet; or the master's page does, before its JSON is there
        time.sleep(0.2)  # polling another process's state, up to the deadline
    raise TimeoutError(f"the standalone cluster had not {workers} workers within {seconds} s")


def free_port(address: str) -> int:
    """A TCP port of an address of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
