"""`python -m pyslash.agent ensure` finds or starts an executor's agent; `serve` is the agent itself."""

from __future__ import annotations

import json
import sys
from typing import NoReturn


def _ensure() -> int:
    from pyslash.agent.process.launch import AgentRequest, ensure

    try:
        print(ensure(AgentRequest.from_json(sys.stdin.read())).to_json())
    except Exception as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        return 1
    return 0


def _serve(ready_fd: int) -> NoReturn:
    from pyslash.agent.process.serve import serve

    serve(ready_fd)


def main(arguments: list[str]) -> int:
    """The exit status; `ensure` reads one JSON object from standard input and prints one line."""
    match arguments:
        case ["ensure"]:
            return _ensure()
        case ["serve", "--ready-fd", fd] if fd.isdecimal():
            _serve(int(fd))
        case _:
            print("usage: python -m pyslash.agent ensure < request.json", file=sys.stderr)
            return 2


sys.exit(main(sys.argv[1:]))
