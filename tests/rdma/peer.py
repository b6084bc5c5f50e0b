"""A process with an agent, on this host or the lab's other: `python -m tests.rdma.peer HOST SECRET ARENA SIZE...`.

It prints one line of JSON, {descriptor, blocks: [[offset, size], ...]}, and lives until it is ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyslash import _native
from pyslash.agent.store.block_set import BlockSet, LiveBlock
from pyslash.agent.store.query_state import QueryState
from pyslash.protocol.descriptor import AgentDescriptor
from tests.agent.blocks import PLAN, QUERY
from tests.rdma.raw_block import HEADER_BYTES, put
from tests.transport.in_process import serving

ROOT = Path(__file__).resolve().parents[2]
ON = ROOT / "scripts" / "rxe_lab" / "on"
HOSTS = int(os.environ.get("PYSLASH_LAB_HOSTS", "1"))
SELF = os.environ.get("PYSLASH_LAB_ADDRESS", "127.0.0.1")
OTHER = "10.77.0.2"


@dataclass
class Peer:
    """An agent elsewhere. Block i holds `raw_block.body(i, size)` behind its header."""

    descriptor: AgentDescriptor
    blocks: list[tuple[int, int]]
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """Ends the process, by SIGKILL: on the other host the end of the command that started it does that."""
        self.process.kill()
        self.process.wait()


@contextmanager
def peer(secret: bytes, arena_bytes: int, sizes: list[int]) -> Iterator[Peer]:
    """On the lab's other host if there is one, else on this host under another boot id, so that it looks like one."""
    command = [sys.executable, "-m", "tests.rdma.peer", "", secret.hex(), str(arena_bytes), *map(str, sizes)]
    command[3] = OTHER if HOSTS > 1 else SELF
    process = subprocess.Popen(
        [str(ON), "host2", *command] if HOSTS > 1 else command, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        record = said["descriptor"]
        if HOSTS == 1:
            record["boot_id"] = "as if on another host"
        yield Peer(AgentDescriptor(**record), [tuple(block) for block in said["blocks"]], process)
    finally:
        process.kill()
        process.wait()


def main(host: str, secret: str, arena_bytes: str, *sizes: str) -> None:
    """Serve."""
    with (
        tempfile.TemporaryDirectory(prefix="ps-") as folder,
        serving(bytes.fromhex(secret), Path(folder), int(arena_bytes), host) as served,
    ):
        blocks = [
            (put(served.arena, served.descriptor.fd, seed, int(size)), int(size)) for seed, size in enumerate(sizes)
        ]
        # As if committed, so that tcp serves them too.
        live = {offset: LiveBlock(offset, HEADER_BYTES + size, 0, b"", ()) for offset, size in blocks}
        served.state.queries[QUERY] = QueryState(_native.Plan(PLAN), PLAN, own=BlockSet(live))
        print(json.dumps({"descriptor": served.descriptor.to_record(), "blocks": blocks}), flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
