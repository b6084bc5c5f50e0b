"""Spark, Java, Python of driver and executors, and pyslash's own native parts."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from pyslash.inspect.doctor.finding import Finding, Status

CRC_CHECK = 0xE3069283  # CRC32C of "123456789", RFC 3720
_SECONDS = 60
_RELEASE = re.compile(r"\d+(\.\d+)*")
_EXECUTOR_IMPORTS = (
    "import sys, pyslash, pyslash.agent.server; import pyslash._native; "
    "print(*sys.version_info[:2], pyslash.__version__)"
)
_REINSTALL = "install the wheel of pyslash again: pip install --force-reinstall --no-deps FILE"


def python() -> Finding:
    """The driver's, which is the one that runs this."""
    return Finding("python", Status.OK, f"{platform.python_version()}, {sys.executable}")


def executor_python(named: str = "") -> Finding:
    """The one that executors of this machine would run: `named` by spark.pyspark.python, or by PYSPARK_PYTHON, or else
    the driver's own. It is run as an executor runs it, and has to load all that an agent needs.
    """
    whose, name = next(
        (whose, name)
        for whose, name in (
            ("spark.pyspark.python", named),
            ("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON", "")),
            ("neither PYSPARK_PYTHON nor spark.pyspark.python is set, so the driver's", sys.executable),
        )
        if name
    )
    fix = f"install the wheel of pyslash for {name}, with the driver's version; or name another Python"
    try:
        done = subprocess.run(
            [name, "-P", "-c", _EXECUTOR_IMPORTS],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            cwd="/",
            env=_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("executor python", Status.FAILURE, f"{name} ({whose}): {error}", "correct its path")
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        why = "it is older than Python 3.11" if said[0].startswith("Unknown option: -P") else said[-1]
        return Finding("executor python", Status.FAILURE, f"{name} ({whose}): {why}", fix)
    major, minor, version = done.stdout.split()
    if (int(major), int(minor)) != sys.version_info[:2]:
        found = f"{name} ({whose}) is Python {major}.{minor}"
        return Finding("executor python", Status.FAILURE, found, "use the same Python version for driver and executors")
    return Finding("executor python", Status.OK, f"{name} ({whose}), with pyslash {version}")


def _environment() -> dict[str, str]:
    """Executors import pyslash from where the driver does, if that is a source tree."""
    tree = str(Path(__file__).resolve().parents[3])
    known = os.environ.get("PYTHONPATH", "")
    is_installed = Path(tree).name in ("site-packages", "dist-packages")
    path = known if is_installed else os.pathsep.join(filter(None, (tree, known)))
    return {**os.environ, "PYTHONPATH": path}


def spark() -> Finding:
    """PySpark, of a version that pyslash knows."""
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            "spark", Status.FAILURE, "pyspark is not installed in this environment", "pip install 'pyspark>=4.0,<4.4'"
        )
    if not (4, 0) <= tuple(map(int, version.split(".")[:2])) < (4, 4):
        return Finding("spark", Status.FAILURE, f"pyspark {version}", "pip install 'pyspark>=4.0,<4.4'")
    home = os.environ.get("SPARK_HOME", "")
    ours, theirs = _RELEASE.match(version), _release_at(Path(home)) if home else None
    if theirs is not None and ours is not None and theirs != ours[0]:
        found = f"pyspark {version}, but SPARK_HOME={home} has Spark {theirs}, which spark-submit and PySpark take"
        return Finding("spark", Status.FAILURE, found, f"unset SPARK_HOME, or pip install 'pyspark=={theirs}'")
    return Finding("spark", Status.OK, f"pyspark {version}")


def java() -> Finding:
    """17 or later, from JAVA_HOME or the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    fix = "install a Java runtime 17 or later, or point JAVA_HOME at one"
    if program is None:
        return Finding("java", Status.FAILURE, "no java on the PATH", fix)
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except OSError as error:
        return Finding("java", Status.FAILURE, f"{program}: {error.strerror}", fix)
    said = done.stderr + done.stdout
    match = re.search(r'version "(\d+)', said)
    found = f"{program}: {said.strip().splitlines()[0] if said.strip() else 'no version'}"
    if match is None or int(match[1]) < 17:
        return Finding("java", Status.FAILURE, found, fix)
    return Finding("java", Status.OK, found)


def native_module() -> Finding:
    """Loads, and computes."""
    try:
        from pyslash._native import __file__ as file
        from pyslash._native import crc32c

        if crc32c(b"123456789") != CRC_CHECK:
            return Finding("native module", Status.FAILURE, "its CRC32C is wrong", _REINSTALL)
    except ImportError as error:
        return Finding("native module", Status.FAILURE, str(error), _REINSTALL)
    return Finding("native module", Status.OK, str(file))


def jvm_bridge() -> Finding:
    """The jar that hands rows over inside the JVM."""
    jar = files("pyslash").joinpath("jars", "pyslash.spark.jar")
    if not jar.is_file():
        fix = "reinstall pyslash on a machine with javac; without the jar, queries run on plain Spark"
        return Finding("row bridge", Status.WARNING, "its jar is not in this installation", fix)
    return Finding("row bridge", Status.OK, str(jar))


CHECKS = (python, spark, java, native_module, jvm_bridge)


def _release_at(home: Path) -> str | None:
    """Of the Spark in a folder; None: there is none."""
    jars = (
        re.search(r"spark-core_[\d.]+-(\d+(?:\.\d+)*)", jar.name) for jar in (home / "jars").glob("spark-core_*.jar")
    )
    return next((found[1] for found in jars if found), None)
