"""Checkpoints as earlier versions of pyslash have left them, in `data/`: two micro-batches of a query of windows.

`python -m tests.support.old_checkpoint ARCHIVE`, run in a checkout of a version, writes that version's. It leaves out
what belongs to the machine: where the rows were, and the agents, which are gone.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.stream import Stream, run, seconds

DATA = Path(__file__).parent / "data"
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64()), ("d", pa.float64())])
BATCHES = 2
BEFORE = ("count(*)", "sum(v)", "first(d)", "min(v)", "max_by(d, v)")
_ROWS = "@ROWS@"


def add(stream: Stream, batches: int) -> None:
    """The next micro-batches: windows stay open over two of them, and some rows are late."""
    for _ in range(batches):
        at = len(stream.batches)
        times = [seconds(1000 + 7 * at + i * 5 % 17 - (30 if i % 11 == 0 else 0)) for i in range(40)]
        keys = [None if i % 7 == 0 else "abc"[i % 3] for i in range(40)]
        values = [None if i % 5 == 0 else 100 * at + i for i in range(40)]
        stream.add(pa.table({"ts": times, "k": keys, "v": values, "d": [i / 4 for i in range(40)]}, SCHEMA))


def query(stream: Stream, *aggregates: str) -> DataFrame:
    """Windows with these aggregates."""
    return stream.read().groupBy(F.window("ts", "20 seconds"), "k").agg(*[F.expr(one) for one in aggregates])


def unpacked(archive: str, folder: Path, rows: Path) -> Path:
    """The checkpoint of a query of its own, in a folder, as though its rows were in that other one."""
    with tarfile.open(DATA / archive) as packed:
        # Python 3.11.2, Debian 12's, does not know filters yet, and later releases warn if none is named.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
    for path in (folder / "checkpoint" / "sources").rglob("*"):
        if path.is_file():
            path.write_text(path.read_text().replace(_ROWS, rows.as_uri()))
    # Agents of this test run know no query of another test.
    (folder / "checkpoint" / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    return folder / "checkpoint"


def write(archive: Path, spark: SparkSession, folder: Path) -> None:
    """Run the query on this version, and pack what it leaves."""
    stream = Stream(spark, folder, SCHEMA, delay_seconds=10)
    add(stream, BATCHES)
    run(query(stream, *BEFORE), folder)
    checkpoint = folder / "checkpoint"
    for path in checkpoint.rglob("*"):
        if path.name.endswith(".crc"):
            path.unlink()  # of files that are about to change; Spark does without
        elif "sources" in path.parts and path.is_file():
            path.write_text(re.sub(r"file:/+[^\"]*/in(?=/)", _ROWS, path.read_text()))
        elif "manifests" in path.parts and path.is_file():
            head, body = path.read_bytes().split(b"\n", 1)
            fields = {**json.loads(body), "agents": []}
            body = json.dumps(fields, sort_keys=True).encode()
            name, number, _ = head.split()
            path.write_bytes(b"%s %s %08x\n%s\n" % (name, number, zlib.crc32(body, int(number)), body))
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(checkpoint, "checkpoint", filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uname = entry.gname = ""
    entry.uid = entry.gid = 0
    entry.mtime = 0
    return entry


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        session = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
        write(Path(sys.argv[1]).resolve(), session, Path(made))
        session.stop()
