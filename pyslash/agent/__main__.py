"""`python -m pyslash.agent ensure` finds or starts an executor's agent; `serve` is the agent itself."""

from __future__ import annotations

import json
import sys
from importlib.abc import MetaPathFinder
from typing import NoReturn


class _WithoutPandas(MetaPathFinder):
    """PyArrow imports pandas for its first array, if it is there: half a second of CPU and 60 MB, of no use here."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Finds nothing, and lets nobody else find that."""
        if name == "pandas":
            raise ModuleNotFoundError("an agent does without pandas", name=name)


def _ensure() -> int:
    from pyslash.agent.process.launch import AgentRequest, ensure

    try:
        print(ensure(AgentRequest.from_json(sys.stdin.read())).to_json())
    except Exception as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        return 1
    return 0


def _serve(ready_fd: int) -> NoReturn:
    sys.meta_path.insert(0, _WithoutPandas())
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
