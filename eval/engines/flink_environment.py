"""Flink's own Python environment, made when Flink is first asked for.

PyFlink pins versions of pyarrow and pandas that Spark's environment does not have. PyFlink comes by pip; its Parquet
format, which PyPI does not have, by the Ivy that PySpark ships; Hadoop's classes, which the format wants, are Spark's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from eval.refusal import CannotRunError

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build" / "eval" / "flink-venv"
VERSION = "2.3.0"


def make_environment() -> None:
    """Install PyFlink and its Parquet format, once; some minutes, and 1.5 GB.

    Raises:
        CannotRunError: pip or Ivy could not get them.
    """
    if ENVIRONMENT.exists():
        return
    unfinished = ENVIRONMENT.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "venv", unfinished)
    _run(unfinished / "bin" / "python", "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}")
    wanted = ("-dependency", "org.apache.flink", "flink-sql-parquet", VERSION, "-notransitive", "-types", "jar")
    retrieve = f"{unfinished}/jars/[artifact]-[revision].[ext]"
    ivy = next(_spark_jars().glob("ivy-*.jar"))
    _run("java", "-jar", ivy, *wanted, "-cache", unfinished / "ivy", "-retrieve", retrieve)
    unfinished.rename(ENVIRONMENT)


def class_path() -> list[Path]:
    """What Flink's JVM needs beyond its own jars."""
    return [*(ENVIRONMENT / "jars").glob("*.jar"), *sorted(_spark_jars().glob("hadoop-client-*.jar"))]


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotRunError(f"PyFlink {VERSION} could not be installed: {' '.join(last)}")


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"
