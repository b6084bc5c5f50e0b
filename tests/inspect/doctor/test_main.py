"""`pyslash doctor`, on this machine and on made-up ones."""

from __future__ import annotations

import json
import re
import sys
import venv
from pathlib import Path

import pytest

from pyslash.cli import main
from pyslash.conf import Conf
from pyslash.inspect.doctor import fabric, memory, software
from pyslash.inspect.doctor.finding import Finding, Status
from pyslash.memory import Container
from pyslash.rdma.port import Port
from tests.rdma.conftest import port

__all__ = ["port"]

GIB = 1 << 30


def test_json_names_every_check_and_the_exit_status_follows(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", "--json", "--arena-size", "64m"])
    said = json.loads(capsys.readouterr().out)
    checks = {finding["check"]: finding for finding in said["findings"]}
    assert {"python", "spark", "java", "native module", "arena", "locked memory", "pyverbs", "transport"} <= set(checks)
    assert said["ok"] is (status == 0)
    assert all(finding["fix"] for finding in said["findings"] if finding["status"] == "failure")


def test_the_table_has_a_line_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--arena-size", "64m"])
    said = capsys.readouterr().out
    assert "transport" in said
    assert "auto: shm on one host" in said


def test_a_machine_without_rdma_is_sound_unless_rdma_is_required(tmp_path: Path) -> None:
    calm = list(fabric.rdma(False, tmp_path / "none", tmp_path / "none"))
    assert [finding.status for finding in calm if finding.check == "rdma device"] == [Status.ABSENT]
    assert all(finding.status is not Status.FAILURE for finding in calm)
    strict = list(fabric.rdma(True, tmp_path / "none", tmp_path / "none"))
    assert [finding.status for finding in strict if finding.check == "rdma device"] == [Status.FAILURE]
    assert "no RDMA device" in fabric.verdict(calm).found


def test_a_port_that_is_down_is_a_failure_with_its_fix(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    (port / "state").write_text("1: DOWN\n")
    found = list(fabric.rdma(False, tmp_path, tmp_path / "none"))
    down = next(finding for finding in found if finding.check == "rdma device")
    assert (down.status, down.found) == (Status.FAILURE, "mlx5_0/1 is DOWN")
    assert "ip link set" in down.fix
    nodes = next(finding for finding in found if finding.check == "device nodes")
    assert nodes.status is Status.FAILURE


@pytest.mark.parametrize("file", ["yarn.conf", "k8s.conf"])
def test_the_containers_of_our_files_have_room_and_not_much_more(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[3] / "spark-conf" / file).read_text()

    def container(text: str) -> dict[str, str]:
        (tmp_path / "file.conf").write_text(text)
        main(["doctor", "--json", "--properties-file", str(tmp_path / "file.conf")])
        findings = json.loads(capsys.readouterr().out)["findings"]
        return next(finding for finding in findings if finding["check"] == "container")

    assert container(text)["status"] == "ok"
    larger = container(re.sub(r"(home.size +)1g", r"\g<1>2g", text))
    assert larger["status"] == "failure"
    # 4g arena, 2g groups, 128m agent, two cores of 256m, a tenth of 4g.
    assert larger["fix"].startswith(f"set spark.executor.memoryOverhead={4096 + 2048 + 128 + 512 + 409}m")


ON_KUBERNETES = {"spark.master": "k8s://host", "spark.executor.memory": "10g"}


@pytest.mark.parametrize(
    ("settings", "overhead_mib"),
    [
        ({"spark.master": "yarn"}, 384),
        ({"spark.master": "yarn", "spark.executor.memory": "10g"}, 1024),
        (ON_KUBERNETES, 1024),
        (ON_KUBERNETES | {"spark.kubernetes.memoryOverheadFactor": "0.2"}, 2048),
        (ON_KUBERNETES | {"spark.submit.deployMode": "cluster"}, 4096),
        # What a driver in the cluster is told of a job in Java.
        (ON_KUBERNETES | {"spark.submit.deployMode": "cluster", "spark.kubernetes.memoryOverheadFactor": "0.1"}, 1024),
        ({"spark.master": "yarn", "spark.executor.memoryOverhead": "700"}, 700),
        ({"spark.master": "yarn", "spark.executor.pyspark.memory": "1g"}, 384 + 1024),
    ],
)
def test_the_overhead_is_what_spark_makes_of_its_settings(settings: dict[str, str], overhead_mib: int) -> None:
    found = Container.of(settings.get, Conf.read({}.get))
    assert found is not None
    assert found.overhead == overhead_mib << 20
    assert found.shortage is not None
    assert f"leaves {overhead_mib}m for that" in found.shortage


def test_executors_without_a_container_have_no_account() -> None:
    assert Container.of({"spark.master": "spark://host:7077"}.get, Conf.read({}.get)) is None


def test_a_properties_file_that_cannot_be_read_is_refused_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.conf").write_text("spark.slash.arena.size=much\n")
    for file, reason in (("bad.conf", "spark.slash.arena.size"), ("none.conf", "No such file")):
        with pytest.raises(SystemExit):
            main(["doctor", "--properties-file", str(tmp_path / file)])
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gib", "limit", "status"),
    [(2, "max", Status.OK), (6, "max", Status.WARNING), (9, "max", Status.FAILURE), (2, str(GIB), Status.FAILURE)],
)
def test_an_arena_has_to_fit(tmp_path: Path, gib: int, limit: str, status: Status) -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal: {8 * GIB // 1024} kB\nMemFree: 1 kB\n")
    (tmp_path / "memory.max").write_text(limit)
    assert memory.arena(gib * GIB, tmp_path / "meminfo", tmp_path).status is status


@pytest.mark.parametrize(
    ("limit", "device", "status"),
    [(64 << 10, True, Status.FAILURE), (64 << 10, False, Status.OK), (4 * GIB, True, Status.OK), (-1, True, Status.OK)],
)
def test_locked_memory(monkeypatch: pytest.MonkeyPatch, limit: int, device: bool, status: Status) -> None:
    monkeypatch.setattr(memory.resource, "getrlimit", lambda _: (limit, limit))
    assert memory.locked_memory(2 * GIB, device).status is status


def test_the_python_of_executors_is_run_and_has_to_load_all_of_pyslash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    missing = software.executor_python()
    assert (missing.status, "/no/such/python (PYSPARK_PYTHON)" in missing.found) == (Status.FAILURE, True)
    assert software.executor_python(sys.executable).status is Status.OK, "spark.pyspark.python comes first"
    monkeypatch.delenv("PYSPARK_PYTHON")
    own = software.executor_python()
    assert (own.status, sys.executable in own.found) == (Status.OK, True)
    # Another environment of the same Python, in which pyslash's source tree alone is found.
    venv.create(tmp_path / "venv")
    other = software.executor_python(str(tmp_path / "venv" / "bin" / "python"))
    assert other.status is Status.FAILURE
    assert re.search(r"ModuleNotFoundError: No module named|cannot import name '_native'", other.found)


def test_a_python_before_the_first_that_pyslash_runs_on_is_called_old(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho 'Unknown option: -P' >&2\necho 'Try `python -h` for more' >&2\nexit 2\n")
    old.chmod(0o755)
    assert software.executor_python(str(old)).found.endswith("it is older than Python 3.11")


@pytest.mark.parametrize(("master", "asked"), [("local[2]", True), ("yarn", False)])
def test_a_properties_file_for_this_machine_names_the_python(
    master: str, asked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.conf").write_text(f"spark.master {master}\nspark.pyspark.python /no/such/python\n")
    main(["doctor", "--json", "--properties-file", str(tmp_path / "file.conf")])
    findings = {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert ("/no/such/python" in findings["executor python"]["found"]) is asked


def test_a_properties_file_with_an_unknown_key_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file.conf").write_text("spark.slash.mdoe require\n")
    with pytest.raises(SystemExit):
        main(["doctor", "--properties-file", str(tmp_path / "file.conf")])
    assert "do you mean spark.slash.mode?" in capsys.readouterr().err


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = software.java()
    assert finding.status is Status.FAILURE
    assert "JAVA_HOME" in finding.fix


def test_the_verdict_follows_the_read() -> None:
    good = [Finding("rdma read", Status.OK, "fast")]
    assert "verbs to peers" in fabric.verdict(good).found
    bad = [Finding("device nodes", Status.FAILURE, "no access to uverbs0"), Finding("rdma read", Status.FAILURE, "x")]
    assert "because no access to uverbs0" in fabric.verdict(bad).found


@pytest.mark.rdma
def test_a_device_is_read_through(port: Port, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--rdma", "--arena-size", "64m"]) == 0
    checks = {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert checks["rdma read"]["status"] == "ok"
    assert "MB/s" in checks["rdma read"]["found"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--arena-size", "12q"], "'12q' is not a size such as 512m or 2g"),
        (["--conf", "spark.slash.mode"], "'spark.slash.mode' is not NAME=VALUE"),
        (["--properties-file", "/no/such/file"], "No such file or directory"),
    ],
)
def test_a_wrong_argument_is_told_what_it_is_not(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *arguments])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_a_setting_without_its_application_is_not_swallowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--conf", "spark.executor.cores=2"]) == 2
    assert "--master" in capsys.readouterr().err


def test_a_spark_home_of_another_release_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert software.spark().status is Status.OK
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    found = software.spark()
    assert found.status is Status.FAILURE
    assert "has Spark 3.5.1" in found.found
    assert "unset SPARK_HOME" in found.fix


def test_a_size_of_sparks_that_is_none_is_refused_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.conf").write_text("spark.master yarn\nspark.executor.memory 1.5g\n")
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--properties-file", str(tmp_path / "file.conf")])
    assert ended.value.code == 2
    assert "spark.executor.memory: '1.5g'" in capsys.readouterr().err
