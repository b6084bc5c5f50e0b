"""Random streams whose jobs are clients of a Spark Connect server with the plugin: each gives what plain Spark gives.

About a tenth of those of `test_random_streams`; `PYSLASH_STREAMS_OF_CLIENTS` is their number, or a part of all.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.streaming.streams.cells import FILES, chosen
from tests.support.connect_server import connect_server
from tests.support.jvm import SMALL_PAGES

ROOT = Path(__file__).parents[3]
SEEDS = chosen("PYSLASH_STREAMS_OF_CLIENTS", "3", FILES)
SECONDS = 300 + 60 * len(SEEDS)  # by far
# Spark gives the worker of a client's function ten seconds to start.
ONE_AT_A_TIME = {"PYSLASH_STREAM_THREADS": "1"}
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.slash.arena.size": "256m",
    "spark.driver.memory": "4g" if len(SEEDS) > 20 else "1g",  # the server keeps what it knows of a query for an hour
    **SMALL_PAGES,
}


def test_streams_of_clients_are_sparks_batch_by_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio")
    seeds = ["--first", str(SEEDS.start), "--count", str(len(SEEDS))]
    with connect_server(tmp_path, SETTINGS) as server:
        command = [sys.executable, "-m", "tests.streaming.streams", "--connect", server.url, *seeds]
        told = server.run(*command, folder=ROOT, seconds=SECONDS, **ONE_AT_A_TIME)
        assert len(re.findall("INFO pyslash: query .* runs on pyslash", server.log.read_text())) >= len(SEEDS)
    with capsys.disabled():
        print(f"\n{told.splitlines()[-1]}", end=" ")
    assert re.search(rf"^0 of {len(SEEDS)} streams differ", told, re.MULTILINE), told
