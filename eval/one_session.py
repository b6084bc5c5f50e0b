"""What benches share that compare settings of one session in turns: the session, their options, their records."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval import machine
from eval.conf import add_conf
from eval.workloads import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]


def session(name: str, conf: dict[str, str]) -> SparkSession:
    """On all cores of this machine, on pyslash."""
    import pyslash

    spark = plain_session(name, conf)
    pyslash.enable(spark)
    return spark


def plain_session(name: str, conf: dict[str, str]) -> SparkSession:
    """The same, on pyslash only if it is among the settings."""
    from pyspark.sql import SparkSession

    cores = len(os.sched_getaffinity(0))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.slash.mode": "require",
        **conf,
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(f"eval {name}")
    spark = builder.config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What the command was given, with the options that all of them have; Spark can be started then."""
    add_conf(parser)
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "eval", help="for generated rows")
    parser.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")
    given = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    given.cache.mkdir(parents=True, exist_ok=True)
    return given


def keep(title: str, runs: Iterable[dict[str, Any]], workload: Workload, given: argparse.Namespace) -> Path:
    """A line for each run; the file that they are in."""
    name = f"{title.replace(' ', '-')}-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    out: Path = given.out or ROOT / "eval" / "results" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a") as file:
        for one in runs:
            record = {"title": title, "workload": workload.describe(), **one, "conf": given.conf}
            file.write(json.dumps({**record, "machine": machine.describe()}) + "\n")
    return out


def median_and_error(values: list[float]) -> tuple[float, float]:
    """The median and its standard error, 0 of a single value.

    Of values that are spread like a Gaussian, the error is 0.93 times the distance of the quartiles, over the root of
    their number.
    """
    middle = statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (middle, middle, middle)
    return middle, 0.93 * (high - low) / len(values) ** 0.5
