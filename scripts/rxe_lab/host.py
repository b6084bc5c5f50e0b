"""One lab host: a QEMU process that boots, runs its command and powers itself off."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import time_stamps
from kernel import Kernel, LabError

BOOT_MARK = "lab: kernel is up"
_PR_SET_PDEATHSIG = 1
_KVM_PROBE_SECONDS = 8


@dataclass(frozen=True)
class Machine:
    """What all hosts of a run have in common."""

    kernel: Kernel
    initrd: Path
    accelerator: str
    cpus: int
    memory_mib: int


class Host:
    """Runs from its construction until it powers off, or `end`."""

    def __init__(
        self, machine: Machine, number: int, hosts: int, share: Path, links: Sequence[socket.socket], output: int
    ) -> None:
        """Host `number` of `hosts`; `share` is its /lab, `links` its ends of cables, `output` takes its words.

        Its card hangs on a hub with all its cables: the first host, to which all others have one, connects them.
        """
        self.share = share
        self._number = number
        self._console = share / "console.log"
        words = f"console=ttyS0 quiet panic=-1 host={number} hosts={hosts}"
        if machine.accelerator == "tcg":
            # Else the kernel takes the HPET for its clock: each reading of it leaves the emulated code.
            words += f" clocksource=tsc tsc=reliable{time_stamps.known_rate()}"
        command = [
            "qemu-system-x86_64", *_accelerator(machine.accelerator), "-smp", str(machine.cpus),
            "-m", str(machine.memory_mib), "-display", "none", "-monitor", "none", "-no-reboot", "-nodefaults",
            "-serial", f"file:{self._console}", "-kernel", str(machine.kernel.image), "-initrd", str(machine.initrd),
            "-append", words,
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
            "-virtfs", f"local,path={share},mount_tag=lab,security_model=none,multidevs=remap",
            "-device", "virtio-serial-pci", "-chardev", f"file,id=output,append=on,path=/dev/fd/{output}",
            "-device", "virtserialport,chardev=output,name=output",
        ]  # fmt: skip
        for cable, link in enumerate(links):
            command += ["-netdev", f"socket,id=cable{cable},fd={link.fileno()}"]
            command += ["-netdev", f"hubport,id=port{cable},hubid=0,netdev=cable{cable}"]
        if links:
            mac = f"52:54:00:00:00:{number:02x}"
            command += ["-netdev", "hubport,id=card,hubid=0"]
            command += ["-device", f"virtio-net-pci,netdev=card,mac={mac},romfile="]
        self._errors = (share / "qemu.log").open("w+b")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=[output, *(link.fileno() for link in links)],
            preexec_fn=_die_with_parent,
        )

    def wait(self, seconds: float, others: Sequence[Host] = ()) -> int:
        """The command's exit status, as soon as the host has written it: all its files and output are there by then.

        Raises:
            LabError: it did not within the time, or a host ended before; the message has the end of its console.
        """
        deadline = time.monotonic() + seconds
        status = self.share / "status"
        while not status.exists():
            for host in (self, *others):
                host.check_runs()
            if time.monotonic() > deadline:
                raise LabError(f"a host still ran after {seconds:.0f} s; its console ends: {self.console()}")
            time.sleep(0.02)
        return int(status.read_text())

    def check_runs(self) -> None:
        """Nothing.

        Raises:
            LabError: the host has ended; the message has what QEMU said and the end of the host's console.
        """
        if self._process.poll() is not None:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip()[-500:]
            raise LabError(
                f"host {self._number} ended with status {self._process.returncode} and without a result. "
                f"QEMU: {said} Console: {self.console(4000)}"
            )

    def booted(self, seconds: float) -> bool:
        """Whether the kernel comes up within the time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._process.poll() is None:
            if BOOT_MARK in self.console(1 << 20):
                return True
            time.sleep(0.05)
        return False

    def console(self, last: int = 1000) -> str:
        """The end of what kernel and init have said."""
        try:
            return self._console.read_text(errors="replace")[-last:].strip()
        except FileNotFoundError:
            return ""

    def end(self) -> None:
        """Ends the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._errors.close()


def accelerator(machine: Machine, folder: Path) -> str:
    """`kvm` where a guest truly runs under it, else `tcg`. A device node alone proves nothing."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = folder / f"accelerator-{boot}"
    if not known.exists():
        share = folder / f"probe-{os.getpid()}"
        share.mkdir(parents=True, exist_ok=True)
        with open(os.devnull, "wb") as nowhere:
            probe = Host(machine, 1, 1, share, [], nowhere.fileno())
            try:
                known.write_text("kvm" if probe.booted(_KVM_PROBE_SECONDS) else "tcg")
            finally:
                probe.end()
                shutil.rmtree(share)
    return known.read_text()


def _accelerator(name: str) -> list[str]:
    return ["-accel", "kvm", "-cpu", "host"] if name == "kvm" else ["-accel", "tcg,thread=multi", "-cpu", "max"]


def _die_with_parent() -> None:
    # However the lab ends, its hosts end with it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit(1)
