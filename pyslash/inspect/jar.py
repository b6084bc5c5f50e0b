"""`pyslash jar`: where the jar is, for `spark-submit --jars`, and for a History Server's class path to show the tab."""

from __future__ import annotations

import argparse
import sys

from pyslash.errors import RowBridgeUnavailableError
from pyslash.spark.jvm_bridge import jar_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command: none."""


def main(_: argparse.Namespace) -> int:
    """Print the path; 1 if this installation has no jar."""
    try:
        print(jar_path())
    except RowBridgeUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
