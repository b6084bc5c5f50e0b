"""As much of Kubernetes as Spark talks to, on loopback: an API server that keeps what is created, and starts executors.

An executor's pod becomes a process of this machine: the image's entry point with the pod's arguments and environment,
in this Python's environment instead of the image. Its limits, volumes and capabilities are kept, and not applied.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyspark

ROOT = Path(__file__).resolve().parents[2]
ENTRYPOINT = ROOT / "spark-conf" / "kubernetes" / "entrypoint.sh"
ADDRESS = "127.0.0.1"


class Cluster:
    """What was created, by kind, and the processes of the executors' pods, with their logs in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.created: dict[str, list[dict[str, Any]]] = {}
        self.executors: list[subprocess.Popen[bytes]] = []
        self.ended = threading.Event()
        self._folder = folder

    def create(self, made: dict[str, Any]) -> dict[str, Any]:
        """As the API server answers; the pod of an executor starts."""
        made["metadata"].update(uid=f"uid-{made['metadata']['name']}", resourceVersion="1", namespace="default")
        of_kind = self.created.setdefault(made["kind"], [])
        of_kind[:] = [other for other in of_kind if other["metadata"]["name"] != made["metadata"]["name"]] + [made]
        if made["kind"] == "Pod" and made["metadata"]["labels"]["spark-role"] == "executor":
            self._start(made)
            made["status"] = {"phase": "Running", "podIP": ADDRESS}
        return made

    def _start(self, pod: dict[str, Any]) -> None:
        (container,) = pod["spec"]["containers"]
        name = pod["metadata"]["name"]
        fields = {"status.podIP": ADDRESS, "metadata.name": name}
        given = {
            each["name"]: each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in container["env"]
        }
        work = self._folder / name
        work.mkdir()
        given.update(SPARK_CONF_DIR=str(work), SPARK_LOCAL_DIRS=str(work))  # volumes of the pod
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        image = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PATH": path, "SPARK_LOCAL_IP": ADDRESS}
        log = (work / "log").open("wb")
        command = ["bash", str(ENTRYPOINT), *container["args"]]
        self.executors.append(subprocess.Popen(command, env={**image, **given}, cwd=work, stdout=log, stderr=log))


def _handler(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self._answer(201, cluster.create(json.loads(self._body())))

        def do_GET(self) -> None:
            if "watch=true" not in self.path:
                pods = cluster.created.get("Pod", [])
                self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})
            elif "Upgrade" in self.headers:
                self._answer(200, None)  # no WebSocket: the client asks again, for a stream
            else:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Connection", "close")
                self.end_headers()
                cluster.ended.wait()  # nothing ever happens to a pod
                self.close_connection = True

        def do_PATCH(self) -> None:
            self.do_POST()  # Spark's patches are whole objects: server-side apply

        def do_DELETE(self) -> None:
            self._body()
            self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _answer(self, status: int, body: dict[str, Any] | None) -> None:
            text = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def kubernetes(folder: Path) -> Iterator[tuple[str, Cluster]]:
    """The master's URL for spark-submit, and what is created there; every process is ended afterwards."""
    cluster = Cluster(folder)
    server = ThreadingHTTPServer((ADDRESS, 0), _handler(cluster))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"k8s://http://{ADDRESS}:{server.server_port}", cluster
    finally:
        cluster.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
        for process in cluster.executors:
            process.terminate()
            process.wait()
