"""The lab: QEMU hosts with real rdma_rxe, in which a command runs over this machine's own file tree.

    scripts/rxe_lab/lab run [--hosts N] [--cpus N] [--memory MIB] [--seconds N] [--results DIR] -- COMMAND...

COMMAND runs as root on host 1, in the current folder; the tree is read-only below an overlay, so nothing that it writes
stays, except below /lab, which is copied to --results. Its output and exit status become the lab's. With several hosts,
`scripts/rxe_lab/on HOST COMMAND...` runs another command on another host. Exit status 125: there can be
no lab here (no QEMU, no kernel package); 124: it failed, or the time was over.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from host import Host, Machine, accelerator
from initramfs import initramfs
from kernel import Kernel, LabError, cache_folder, get_kernel

HERE = Path(__file__).resolve().parent
MOST_HOSTS = 16
LAB_FAILED = 124
NO_LAB = 125
# command -> Debian's package of it
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "ip": "iproute2",
}


def main() -> int:
    """The command's exit status, or 124, or 125."""
    parser = argparse.ArgumentParser(prog="lab", description="a command inside hosts with Soft-RoCE")
    commands = parser.add_subparsers(dest="action", required=True)
    run = commands.add_parser("run", help="boot, run, power off")
    run.add_argument("--hosts", type=int, choices=range(1, MOST_HOSTS + 1), default=1, metavar="N")
    run.add_argument("--memory", type=int, default=2048, metavar="MIB", help="of each host")
    run.add_argument("--cpus", type=int, help="of each host; default: a fair share of this machine's")
    run.add_argument("--seconds", type=float, default=600, help="the whole run ends after this time")
    run.add_argument("--results", type=Path, help="folder for what the command leaves in /lab")
    run.add_argument("command", nargs="+", help="after --")
    commands.add_parser("prepare", help="install and download what is missing, nothing else")
    args = parser.parse_args()
    # Ended from outside, too, it takes its folders away; its hosts die with it in any case.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(LAB_FAILED))
    try:
        kernel = prepare()
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return NO_LAB
    try:
        return 0 if args.action == "prepare" else _run(args, kernel)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return LAB_FAILED


def prepare() -> Kernel:
    """Installs the programs that are missing and gets a kernel.

    Raises:
        LabError: something cannot be had.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program, path=path) is None]
    if os.uname().machine != "x86_64":
        raise LabError(f"its hosts are x86-64, this machine is {os.uname().machine}")
    if missing or not any(cache_folder().glob("[0-9]*/boot/vmlinuz-*")):
        if shutil.which("apt-get") is None:
            raise LabError("it takes its kernel from Debian's or Ubuntu's packages, and this system has no apt-get")
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        _apt([*sudo, "apt-get", "update", "-qq"])
        if missing:
            _apt([*sudo, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing])
    return get_kernel()


def _apt(command: list[str]) -> None:
    done = subprocess.run(
        command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")


def _run(args: argparse.Namespace, kernel: Kernel) -> int:
    started = time.monotonic()
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="rxe-lab-")))
        initrd = folder / "initrd"
        busybox = shutil.which("busybox", path="/bin:/usr/bin")
        if busybox is None:
            raise LabError("busybox is not installed")
        initrd.write_bytes(initramfs(kernel, Path(busybox), HERE / "init"))
        cpus = args.cpus or max(1, (os.cpu_count() or 1) // args.hosts)
        machine = Machine(kernel, initrd, "kvm", cpus, args.memory)
        machine = dataclasses.replace(machine, accelerator=accelerator(machine, cache_folder()))
        # The first host has a cable to each of the others.
        cables = [socket.socketpair() for _ in range(1, args.hosts)]
        ends = [[first for first, _ in cables], *([other] for _, other in cables)]
        serve = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(HERE / 'remote.py'))} serve\n"
        hosts = []
        for number, links in enumerate(ends, 1):
            share = folder / f"host{number}"
            share.mkdir()
            shutil.copy(HERE / "guest", share)
            (share / "command").write_text(_script(args.command) if number == 1 else serve)
            output = cleanup.enter_context(_to_stdout() if number == 1 else (share / "output.log").open("wb"))
            hosts.append(Host(machine, number, args.hosts, share, links, output.fileno()))
            cleanup.callback(hosts[-1].end)
            for link in links:
                link.close()
        status = hosts[0].wait(args.seconds, hosts[1:])
        if args.results is not None:
            _keep(hosts, args.results)
        for number, host in enumerate(hosts, 1):
            if status != 0:
                print(f"lab: the console of host {number} ends: {host.console(4000)}", file=sys.stderr)
        told = hosts[0].console().splitlines()
        print(
            f"lab: {args.hosts} host(s) under {machine.accelerator}, Linux {kernel.version}, rxe0; "
            f"{'; '.join(line for line in told if 'is up after' in line)}; "
            f"{time.monotonic() - started:.0f} s in all",
            file=sys.stderr,
        )
        return status


@contextmanager
def _to_stdout() -> Iterator[IO[bytes]]:
    """A file that flows to our standard output, whatever that is; QEMU can open pipes by path, but not sockets."""
    read_end, write_end = os.pipe()

    def flow() -> None:
        with open(read_end, "rb", buffering=0) as pipe:
            while piece := pipe.read(65536):
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()

    thread = threading.Thread(target=flow)
    thread.start()
    try:
        with open(write_end, "wb", buffering=0) as pipe:
            yield pipe
    finally:
        thread.join()


def _script(command: list[str]) -> str:
    kept = {name: os.environ.get(name) for name in ("PATH", "HOME", "LANG", "JAVA_HOME", "PYTHONPATH")}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in kept.items() if value)
    return f"cd {shlex.quote(os.getcwd())}\n{exports}exec {shlex.join(command)}\n"


def _keep(hosts: list[Host], results: Path) -> None:
    unneeded = shutil.ignore_patterns("guest", "command", "hosts")
    for number, host in enumerate(hosts, 1):
        into = results if number == 1 else results / f"host{number}"
        shutil.copytree(host.share, into, dirs_exist_ok=True, ignore=unneeded)


if __name__ == "__main__":
    sys.exit(main())
