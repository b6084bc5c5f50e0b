"""The command: run all checks, print them, exit 1 if one failed."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from pyslash.conf import ARENA_SIZE, KEYS, Conf, check_names, read_properties
from pyslash.errors import ConfigError
from pyslash.inspect.doctor import fabric, memory, software
from pyslash.inspect.doctor.finding import Finding, Status
from pyslash.memory import Container

_EXECUTORS_SECONDS = 120.0
_OF_THE_APPLICATION = (
    "spark.submit.deployMode=client",  # the table is printed here
    "spark.locality.wait=60s",  # a task waits for its own executor
    "spark.dynamicAllocation.enabled=false",
    "spark.ui.enabled=false",
    "spark.ui.showConsoleProgress=false",
    "spark.slash.mode=off",
)
_MARKS = {Status.OK: "ok", Status.ABSENT: "--", Status.WARNING: "WARN", Status.FAILURE: "FAIL"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rdma", action="store_true", help="fail if RDMA does not work on this machine")
    parser.add_argument(
        "--master", metavar="URL", help="check every executor of a cluster too, by a Spark application of its own there"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting of that application (repeatable); needs --master",
    )
    parser.add_argument(
        "--submitted", action="store_true", help=argparse.SUPPRESS
    )  # what --master lets spark-submit run
    parser.add_argument(
        "--properties-file",
        type=_properties,
        default=_Properties(),
        metavar="FILE",
        help="a properties file for spark-submit: check that containers are large enough for their executors",
    )
    parser.add_argument(
        "--arena-size",
        type=_size,
        metavar="SIZE",
        help="spark.slash.arena.size of the cluster (default: that of the file, or pyslash's default)",
    )


def main(args: argparse.Namespace) -> int:
    """0 if nothing failed; warnings and what is merely absent do not count."""
    if args.master is not None:
        _submit(args)
    if args.conf:
        print("pyslash doctor: --conf is a setting of the application that --master starts", file=sys.stderr)
        return 2
    if args.submitted:
        return _diagnose_cluster(args)
    properties = dict(args.properties_file.settings)
    if args.arena_size is not None:
        properties[ARENA_SIZE] = args.arena_size
    return _report(args, diagnose(properties, args.rdma))


def _report(args: argparse.Namespace, findings: list[Finding], executors: Iterable[str] = ()) -> int:
    failed = [finding for finding in findings if finding.status is Status.FAILURE]
    if args.json:
        print(json.dumps({"ok": not failed, "findings": [finding.to_record() for finding in findings]}, indent=2))
    else:
        for line in executors:
            print(line)
        for finding in findings:
            print(f"{_MARKS[finding.status]:>5}  {finding.check:16} {finding.found}")
            if finding.fix:
                print(f"{'':25}-> {finding.fix}")
    return 1 if failed else 0


def _submit(args: argparse.Namespace) -> None:
    """Become spark-submit, which knows what its own settings mean: this command again, as a driver on this machine."""
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise SystemExit("pyslash doctor --master needs PySpark in its environment: pip install 'pyspark>=4.0,<4.4'")
    # Otherwise its scripts ask the executors' Python, which may have no pyspark.
    home = os.environ.setdefault("SPARK_HOME", str(Path(spark.origin).parent))
    program = f"{home}/bin/spark-submit"
    command = [program, "--master", args.master]
    if args.properties_file.path is not None:
        command += ["--properties-file", str(args.properties_file.path)]
    settings = [*args.conf, *_OF_THE_APPLICATION, f"spark.pyspark.driver.python={sys.executable}"]
    if args.arena_size is not None:
        settings.append(f"{ARENA_SIZE}={args.arena_size}")
    for setting in settings:
        command += ["--conf", setting]
    command += ["--jars", str(files("pyslash").joinpath("jars", "pyslash.spark.jar"))]
    options = [option for option in ("--json", "--rdma") if getattr(args, option.strip("-"))]
    main_file = Path(__file__).with_name("__main__.py")
    os.execv(program, [*command, str(main_file), "doctor", "--submitted", *options])


def _diagnose_cluster(args: argparse.Namespace) -> int:
    """In a driver that spark-submit has started: the driver's findings, then those of every executor."""
    from pyspark.sql import SparkSession

    import pyslash
    from pyslash.inspect.doctor import cluster, executors

    session = SparkSession.builder.appName("pyslash doctor").getOrCreate()
    try:
        check_names(session.conf.getAll)
        conf = Conf.read(session.conf.get)
        findings = [check() for check in software.CHECKS]
        findings.append(memory.container(session.conf.get))
        found = executors.executors_of(session, _EXECUTORS_SECONDS)
        if not found:
            fix = "look at the cluster's page: are there workers with enough free cores and memory?"
            reason = f"none came within {_EXECUTORS_SECONDS:.0f} s"
            return _report(args, [*findings, Finding("executors", Status.FAILURE, reason, fix)])
        answers = [executors.ask(session, executor) for executor in found]
        driver = cluster.Driver(platform.python_version(), pyslash.__version__, conf.arena_bytes)
        findings += cluster.judge(driver, answers, args.rdma)
        return _report(args, findings, cluster.table(answers))
    finally:
        session.stop()


def diagnose(properties: dict[str, str], rdma_required: bool = False) -> list[Finding]:
    """Every check, in order. `properties`: Spark's settings, as far as they are known, each of which parses."""
    findings = [check() for check in software.CHECKS]
    # A path on a cluster's hosts says nothing about this one: `--master` asks the executors.
    is_local = properties.get("spark.master", "").startswith("local")
    findings.append(software.executor_python(properties.get("spark.pyspark.python", "") if is_local else ""))
    arena_bytes = Conf.read(properties.get).arena_bytes
    findings += [memory.arena(arena_bytes), memory.container(properties.get)]
    rdma = list(fabric.rdma(rdma_required))
    has_device = any(finding.check == "rdma device" and finding.status is Status.OK for finding in rdma)
    findings += [memory.locked_memory(arena_bytes, has_device), *rdma, fabric.verdict(rdma)]
    wanted = os.environ.get("PYSLASH_RDMA_DEVICE")
    if wanted:
        findings.append(Finding("environment", Status.OK, f"PYSLASH_RDMA_DEVICE={wanted}"))
    return findings


def _size(text: str) -> str:
    try:
        KEYS[ARENA_SIZE].parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _setting(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return text


@dataclass(frozen=True)
class _Properties:
    """A properties file of Spark's and its settings; without a file, none."""

    path: Path | None = None
    settings: dict[str, str] = field(default_factory=dict)


def _properties(path: str) -> _Properties:
    """The settings of a properties file of Spark's: a name, blanks or `=`, a value."""
    try:
        found = read_properties(Path(path))
        check_names(found)
        Container.of(found.get, Conf.read(found.get))
    except (ConfigError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return _Properties(Path(path), found)
