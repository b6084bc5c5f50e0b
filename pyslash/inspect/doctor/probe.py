"""What an executor's Python and host have, as one line of JSON: run as a program, by whatever Python is there.

So it imports nothing of pyslash at its top, and keeps to what Python 3.6 knows.
"""

import json
import os
import platform
import resource
import socket
import sys


def facts() -> "dict[str, object]":
    """The answer, without what could not be read."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    found: dict[str, object] = {
        "executor": executor(),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "memory_bytes": memory(),
        "locked_bytes": None if soft == resource.RLIM_INFINITY else soft,
        "rdma_ports": rdma_ports(),
    }
    try:
        import pyslash

        found["pyslash"] = pyslash.__version__
        from pyslash._native import crc32c

        found["crc"] = crc32c(b"123456789")
    except Exception as error:
        found["error"] = type(error).__name__ + ": " + str(error)
    return found


def executor(process: "int | None" = None) -> "str | None":
    """The id of the executor that started this, by the command line of the JVM above it."""
    process = os.getppid() if process is None else process
    while process > 1:
        try:
            with open(f"/proc/{process}/cmdline") as file:
                words = file.read().split("\0")
            if "--executor-id" in words:
                return words[words.index("--executor-id") + 1]
            with open(f"/proc/{process}/stat") as file:
                process = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
    return None


def memory() -> int:
    """Bytes that this host, or this container, may use."""
    with open("/proc/meminfo") as file:
        total = int(file.readline().split()[1]) * 1024
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            limit = file.read().strip()
        return total if limit == "max" else min(total, int(limit))
    except (OSError, ValueError):
        return total


def rdma_ports(folder: str = "/sys/class/infiniband") -> "list[str]":
    """Active ports, as mlx5_0/1."""
    found = []
    for device in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        for port in sorted(os.listdir(os.path.join(folder, device, "ports"))):
            try:
                with open(os.path.join(folder, device, "ports", port, "state")) as file:
                    if "ACTIVE" in file.read():
                        found.append(device + "/" + port)
            except OSError:
                pass
    return found


if __name__ == "__main__":
    print("pyslash probe: " + json.dumps(facts()))
