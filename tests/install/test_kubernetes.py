"""spark-conf/k8s.conf with Spark's own Kubernetes backend: the pods that it asks for, and a query on their executor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cluster.grouped import FOUND
from tests.install.kubernetes import ROOT, Cluster, kubernetes

FOLDER = ROOT / "spark-conf" / "kubernetes"
OURS = ["--properties-file", str(ROOT / "spark-conf" / "k8s.conf"), "--conf", "spark.kubernetes.container.image=IMAGE"]


def submit(master: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["spark-submit", "--master", master, *OURS, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def pods(cluster: Cluster, role: str) -> list[dict[str, Any]]:
    return [pod for pod in cluster.created["Pod"] if pod["metadata"]["labels"]["spark-role"] == role]


@pytest.mark.nightly
def test_a_query_runs_on_the_executor_of_a_pod_with_rdma(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": [i % 7 for i in range(1000)]}), tmp_path / "in" / "1.parquet")
    with kubernetes(tmp_path) as (master, cluster):
        done = submit(
            master,
            tmp_path,
            *("--deploy-mode", "client", "--conf", "spark.executor.instances=1", "--conf", "spark.slash.mode=require"),
            *("--conf", f"spark.kubernetes.executor.podTemplateFile={FOLDER / 'executor-rdma.yaml'}"),
            *(str(ROOT / "tests" / "cluster" / "grouped.py"), str(tmp_path)),
        )
        logs = "".join(log.read_text(errors="replace")[-3000:] for log in tmp_path.glob("*/log"))
    assert FOUND in done.stdout, done.stderr[-4000:] + logs
    (pod,) = pods(cluster, "executor")
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": f"{(4 + 7) * 1024}Mi", "rdma/hca_shared_devices_a": "1"}
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]


def test_the_driver_is_a_pod_with_slash_python(tmp_path: Path) -> None:
    with kubernetes(tmp_path) as (master, cluster):
        wait = "spark.kubernetes.submission.waitAppCompletion=false"
        done = submit(master, tmp_path, "--conf", wait, "local:///opt/job.py")
    assert done.returncode == 0, done.stderr[-4000:]
    (pod,) = pods(cluster, "driver")
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["serviceAccountName"] == "spark"
    assert container["args"][0] == "driver"
    assert container["args"][-1] == "local:///opt/job.py"
    (properties,) = (made["data"]["spark.properties"] for made in cluster.created["ConfigMap"])
    assert re.search(r"^spark\.pyspark\.driver\.python=slash-python$", properties, re.MULTILINE)
    assert re.search(r"^spark\.executor\.memoryOverhead=7g$", properties, re.MULTILINE)


def test_the_image_has_what_its_recipe_copies_and_installs(tmp_path: Path) -> None:
    text = (FOLDER / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert copied == ["dist/pyslash_streaming-*-cp311-*.whl", "spark-conf/kubernetes/entrypoint.sh"]
    assert os.access(FOLDER / "entrypoint.sh", os.X_OK)
    if shutil.which("apt-get") is None or "bookworm" not in Path("/etc/os-release").read_text():
        pytest.skip("no Debian 12 here, so the packages of the image were not looked up")
    (packages,) = re.findall(r"--no-install-recommends \\\n +(.*) \\\n", text)
    known = subprocess.run(
        ["apt-cache", "show", "--no-all-versions", *packages.split()], capture_output=True, text=True, check=False
    )
    if "E: No packages found" in known.stderr or known.stdout == "":
        pytest.skip("apt has no lists here (apt-get update), so the packages of the image were not looked up")
    assert set(re.findall(r"^Package: (.*)$", known.stdout, re.MULTILINE)) == set(packages.split())
