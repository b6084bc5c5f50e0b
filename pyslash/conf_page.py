"""`pyslash conf`: every `spark.slash.*` key, its default and its meaning, as Markdown."""

from __future__ import annotations

import argparse

from pyslash.conf import KEYS

_HEAD = """\
# Configuration

Every key, its default and its meaning; `pyslash conf` prints this page. Set a key like any Spark key: in a properties
file, with `--conf`, or with `spark.conf.set` before a query starts. A query keeps the values that it started with.
Sizes and times are written as in Spark (`512m`, `2g`; `30s`, `2min`; a number alone is of bytes or seconds). A value
that does not parse is an error that names its key, and so is a key of `spark.slash.` that does not exist.

[Tuning](tuning.md) says which keys matter first.

| key | default | meaning |
| --- | --- | --- |
"""

_TAIL = """
[Operations](operations.md#install) lists the properties files to start from, one for each kind of cluster.

## Environment

Some settings differ from host to host, so they are environment variables of the executors.

`PYSLASH_RDMA_DEVICE=DEVICE[:PORT[:GID_INDEX]]` names the RDMA port to use on a host with several. Without it pyslash
uses the port on the network that agents say they are on: an agent takes the one whose interface has its executor's
address, or else the first active one.

`PYSLASH_RDMA_TRAFFIC_CLASS`, 0 to 255, is the traffic class of RoCE packets, 0 by default ([RDMA](rdma.md)).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command: none."""


def main(_: argparse.Namespace) -> int:
    """Print the page."""
    print(page(), end="")
    return 0


def page() -> str:
    """docs/conf.md."""
    rows = (
        f"| `{name}` | {f'`{key.default}`' if key.default else 'empty'} | {key.doc} |\n" for name, key in KEYS.items()
    )
    return _HEAD + "".join(rows) + _TAIL
