"""The arguments of commands that run a job: its file, its own arguments, and Spark's settings for it."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from pyslash.conf import read_properties
from pyslash.errors import ConfigError
from pyslash.spark.jvm_bridge import jar_path


def add(parser: argparse.ArgumentParser) -> None:
    """Add them behind the command's own."""
    parser.add_argument(
        "--properties-file", type=_readable, metavar="FILE", help="Spark's settings, as for spark-submit"
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="one more of Spark's settings"
    )
    parser.add_argument("job", help="the job's Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the job's own arguments")


def submit(args: argparse.Namespace) -> None:
    """Have the session that the job makes get these settings, in a driver that is this process, with the jar."""
    if not (args.properties_file or args.conf):
        return
    told = ["--properties-file", args.properties_file] if args.properties_file else []
    told += [word for setting in [*args.conf, "spark.submit.deployMode=client"] for word in ("--conf", setting)]
    given = read_properties(Path(args.properties_file)) if args.properties_file else {}
    given |= dict(setting.split("=", 1) for setting in args.conf if "=" in setting)
    jars = ",".join(filter(None, [given.get("spark.jars"), str(jar_path())]))
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*told, "--jars", jars, "pyspark-shell"])


def _readable(path: str) -> str:
    try:
        read_properties(Path(path))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path
