"""Puts fault points into the JVMs and agents of an application, from outside: the product knows nothing of them.

`conf` makes the driver and executors load `FaultPoints.java` as a JVM agent, and agents `sitecustomize.py`. A point
strikes while the folder `armed` has a file of its name, which holds the strike.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ARMED = "PYSLASH_TESTS_ARMED"  # the environment variable of agents that holds the folder


def build(folder: Path) -> Path:
    """The jar of the JVM agent, compiled into a folder."""
    jars = Path(pyspark.__file__).parent / "jars"
    classes, jar, manifest = folder / "classes", folder / "fault-points.jar", folder / "manifest"
    classes.mkdir()
    manifest.write_text("Premain-Class: io.pyslash.tests.FaultPoints\n")
    source = HERE / "FaultPoints.java"
    subprocess.run(["javac", "--release", "17", "-cp", f"{jars}/*", "-d", classes, source], check=True)
    subprocess.run(["jar", "cfm", jar, manifest, "-C", classes, "."], check=True)
    return jar


def conf(jar: Path, armed: Path, java_options: str) -> dict[str, str]:
    """The conf of an application whose JVMs and agents have fault points."""
    options = f"{java_options} -javaagent:{jar}={sys.executable}:{ROOT}:{armed}"
    return {
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.executorEnv.PYTHONPATH": f"{ROOT}:{HERE}",
        f"spark.executorEnv.{ARMED}": str(armed),
    }
