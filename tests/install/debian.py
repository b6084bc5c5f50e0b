"""Commands in an empty Debian: a folder that is their root, with nothing of this machine but its kernel and network."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

CERTIFICATES = "/certificates-of-this-machine.pem"
# Its mounts are seen by its processes alone, and end with them.
ENTER = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"'


class Debian:
    """One in the folder `root`. `environment` is of every command, which runs as `user` in the folder `work`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = "0:0"
        self.work = "/"
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        for file in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copy(file, self.at(file))
        # How pip reaches its index here.
        self.environment |= {name: os.environ[name] for name in ("PIP_INDEX_URL", "PIP_CERT") if name in os.environ}
        if "PIP_CERT" in self.environment:
            shutil.copy(self.environment["PIP_CERT"], self.at(CERTIFICATES))
            self.environment["PIP_CERT"] = CERTIFICATES

    def at(self, path: str) -> Path:
        """Where this machine has a path of its."""
        return self.root / path.removeprefix("/")

    def run(self, script: str, *arguments: str) -> str:
        """What a script of bash prints, which has to succeed."""
        given = [f"{name}={value}" for name, value in self.environment.items()]
        chroot = [str(self.root), f"--userspec={self.user}", str(self.root), "/usr/bin/env", f"--chdir={self.work}"]
        command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, *chroot, "-i", *given]
        done = subprocess.run(
            [*command, "bash", "-c", script, *(arguments and ("bash", *arguments))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}: {done.stdout[-4000:]}"
        return done.stdout
