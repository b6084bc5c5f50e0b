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
from tests.support.example import EXAMPLES
from tests.support.page_views import counts_of, write_views
from tests.support.plugin import PLUGIN

FOLDER = ROOT / "spark-conf" / "kubernetes"
CONF = ROOT / "spark-conf" / "k8s.conf"
OURS = ["--properties-file", str(CONF), "--conf", "spark.kubernetes.container.image=IMAGE"]


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
            *("--conf", f"spark.jars=local://{PLUGIN['spark.jars']}"),  # where this environment has it
            *("--conf", f"spark.kubernetes.executor.podTemplateFile={FOLDER / 'executor-rdma.yaml'}"),
            *(str(ROOT / "tests" / "cluster" / "grouped.py"), str(tmp_path)),
        )
        logs = "".join(log.read_text(errors="replace")[-3000:] for log in tmp_path.glob("*/log"))
    assert FOUND in done.stdout, done.stderr[-4000:] + logs
    (pod,) = pods(cluster, "executor")
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": f"{(4 + 7) * 1024}Mi", "rdma/hca_shared_devices_a": "1"}
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]


@pytest.mark.nightly
def test_a_job_that_does_not_know_pyslash_runs_by_the_plugin(tmp_path: Path) -> None:
    """As the file has it, with the jar where this environment has it and not the image."""
    jar = "spark.jars"
    assert re.search(r"^spark\.jars +local:///opt/pyslash\.spark\.jar$", CONF.read_text(), re.MULTILINE)
    assert "/opt/pyslash.spark.jar \\" in (FOLDER / "Dockerfile").read_text()
    write_views(tmp_path / "views")
    found = {}
    with kubernetes(tmp_path) as (master, _):
        for mode in ("off", "require"):
            folder = tmp_path / mode
            settings = {
                jar: f"local://{PLUGIN[jar]}",
                "spark.submit.deployMode": "client",
                "spark.executor.instances": "1",
                "spark.slash.mode": mode,
                "spark.sql.session.timeZone": "UTC",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
            }
            given = (word for name, value in settings.items() for word in ("--conf", f"{name}={value}"))
            folders = [str(tmp_path / "views"), str(folder / "counts"), str(folder / "checkpoint")]
            done = submit(master, tmp_path, *given, str(EXAMPLES / "page_views_sql.py"), *folders, "1")
            logs = "".join(log.read_text(errors="replace")[-3000:] for log in tmp_path.glob("*/log"))
            assert done.returncode == 0, done.stderr[-4000:] + logs
            assert ("runs on pyslash" in done.stderr) == (mode == "require")
            found[mode] = counts_of(folder / "counts")
    assert found["require"] == found["off"]


def test_the_driver_is_a_pod_with_the_plugin(tmp_path: Path) -> None:
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
    assert re.search(r"^spark\.plugins=io\.pyslash\.SlashPlugin$", properties, re.MULTILINE)
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
