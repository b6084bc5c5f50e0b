"""Where figures were measured: machine and versions, for every line of results."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

import pyslash

ROOT = Path(__file__).resolve().parents[1]


@cache
def describe() -> dict[str, object]:
    """CPU, cores that may be used, memory, kernel, the commit of this checkout, and the versions of what took part."""
    return {
        "cpu": _first(Path("/proc/cpuinfo"), r"model name\s*: (.*)") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "kernel": platform.release(),
        "commit": commit(),
        **versions(),
    }


def memory_bytes() -> int:
    """Of the machine."""
    return int(_first(Path("/proc/meminfo"), r"MemTotal:\s*(\d+)") or 0) * 1024


@cache
def commit() -> str:
    """Of this checkout, with `+` behind it if files that git follows differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


@cache
def versions() -> dict[str, str]:
    """Of what every engine of Spark's has in common."""
    packages = {name: version(name) for name in ("pyspark", "pyarrow")}
    return {"python": platform.python_version(), "java": _java(), "pyslash": pyslash.__version__, **packages}


def _first(path: Path, pattern: str) -> str | None:
    match = re.search(pattern, path.read_text()) if path.exists() else None
    return match[1] if match else None


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    lines = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return lines[0] if lines else "unknown"


def version(name: str) -> str:
    """Of an installed package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
