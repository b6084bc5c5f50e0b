"""The option `--conf KEY=VALUE` of the commands that start Spark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def add_conf(parser: argparse.ArgumentParser, text: str | None = None) -> None:
    """Add the option, which may be given again and again; `conf` is a dict of what was given."""
    parser.add_argument("--conf", action=_Setting, default={}, metavar="KEY=VALUE", help=text)


class _Setting(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        key, equals, value = str(values).partition("=")
        if not equals:
            raise argparse.ArgumentError(self, f"{values} is not KEY=VALUE")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), key: value})
